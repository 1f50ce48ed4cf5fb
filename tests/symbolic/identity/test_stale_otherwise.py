# ruff: noqa: E501 (programs in strings)
"""A hundred and fifty more ways to change what a function reads, each in one of the layouts."""

from __future__ import annotations

import pytest

from tricks import LAYOUTS, Trick

TRICKS = {
    'cell rebound by an inner setter': (
        'def make():\n  k=1\n  def f(s): return s*10+k\n  def put(v):\n    nonlocal k\n    k=v\n  return f,put\nf,put=make()',
        'put(2)'),
    'cell_contents assigned': (
        'def make():\n  k=1\n  def f(s): return s*10+k\n  return f\nf=make()',
        'f.__closure__[0].cell_contents=2'),
    'cell of a helper of a helper': (
        'def make():\n  k=1\n  def h(): return k\n  def g(): return h()\n  def f(s): return s*10+g()\n  return f,h\nf,h=make()',
        'h.__closure__[0].cell_contents=2'),
    'partial of partial keywords': (
        "import functools\nd={'k':1}\ndef g(s,k): return s*10+k['k']\nf=functools.partial(functools.partial(g),k=d)",
        "d['k']=2"),
    'partial attribute': (
        'import functools\ndef g(s,p=None): return s*10+h.k\nh=functools.partial(g); h.k=1\nf=functools.partial(g)',
        'h.k=2'),
    'partialmethod': (
        'import functools\nclass A:\n  def m(self,k,s): return s*10+k[0]\n  t=[1]\n  n=functools.partialmethod(m,t)\na=A()\ndef f(s): return a.n(s)',
        'A.t[0]=2'),
    'singledispatch registered': (
        'import functools\n@functools.singledispatch\ndef g(x): return 1\ndef f(s): return s*10+g(s)',
        'g.register(int,lambda x:2)'),
    'singledispatchmethod': (
        'import functools\nclass A:\n  @functools.singledispatchmethod\n  def m(self,x): return 1\na=A()\ndef f(s): return s*10+a.m(s)',
        'A.m.register(int,lambda self,x:2)'),
    'lru_cache over global': (
        'import functools\nk=1\n@functools.lru_cache\ndef g(s): return s*10+k\ndef f(s): return g(s)',
        'k=2;g.cache_clear()'),
    'cached_property reset': (
        'import functools\nclass A:\n  @functools.cached_property\n  def m(self): return self.k\na=A();a.k=1\ndef f(s): return s*10+a.m',
        "a.__dict__['m']=2"),
    'helper module global': (
        "import types,sys\nm=types.ModuleType('helper_mod');exec('k=1\\ndef g(s): return s*10+k',m.__dict__)\ndef f(s): return m.g(s)",
        'm.k=2'),
    'helper module from import': (
        "import types,sys\nm=types.ModuleType('helper_mod');exec('k=1\\ndef g(s): return s*10+k',m.__dict__)\ng=m.g\ndef f(s): return g(s)",
        "exec('k=2',m.__dict__)"),
    'helper module function replaced': (
        "import types,sys\nm=types.ModuleType('helper_mod');exec('def g(s): return s*10+1',m.__dict__)\ndef f(s): return m.g(s)",
        "exec('def g(s): return s*10+2',m.__dict__)"),
    'deque rotated': (
        'import collections\nd=collections.deque([1,2])\ndef f(s): return s*10+d[0]',
        'd.rotate(1)'),
    'dict popped': (
        'd={1:1,2:2}\ndef f(s): return s*10+len(d)',
        'd.pop(1)'),
    'Counter subtract': (
        "import collections\nc=collections.Counter(a=1)\ndef f(s): return s*10+c['a']",
        "c.subtract('a')"),
    'defaultdict factory': (
        'import collections\nk=[1]\nd=collections.defaultdict(lambda:k[0])\ndef f(s): return s*10+d.get(5,0)+d.__missing__(s+7) if False else s*10+dict(d).get(0,k[0])',
        'k[0]=2'),
    'ChainMap child': (
        "import collections\na={};b={'k':1}\nc=collections.ChainMap(a,b)\ndef f(s): return s*10+c['k']",
        "a['k']=2"),
    'mappingproxy': (
        "import types\nd={'k':1}\nm=types.MappingProxyType(d)\ndef f(s): return s*10+m['k']",
        "d['k']=2"),
    'dict view': (
        "d={'k':1}\nv=d.values()\ndef f(s): return s*10+sum(v)",
        "d['k']=2"),
    'memoryview': (
        'b=bytearray([1])\nm=memoryview(b)\ndef f(s): return s*10+m[0]',
        'b[0]=2'),
    'numpy structured': (
        "import numpy as np\na=np.array([(1,2)],dtype=[('x','i4'),('y','i4')])\ndef f(s): return s*10+int(a['x'][0])",
        "a['x'][0]=5"),
    'numpy masked array': (
        'import numpy as np\na=np.ma.array([1,2],mask=[0,0])\ndef f(s): return s*10+int(a.sum())',
        'a.mask=[1,0]'),
    'numpy flat view': (
        'import numpy as np\na=np.array([1,2])\nv=a.flat\ndef f(s): return s*10+int(v[0])',
        'a[0]=5'),
    'numpy readonly': (
        'import numpy as np\na=np.array([1,2]);v=a.view();v.flags.writeable=False\ndef f(s): return s*10+int(v[0])',
        'a[0]=5'),
    'numpy poly': (
        'import numpy as np\np=np.poly1d([1,2])\ndef f(s): return int(p(s))',
        'p.coeffs[0]=5'),
    'torch scalar tensor': (
        'import torch\nk=torch.tensor(1)\ndef f(s): return s*10+int(k)',
        'k.fill_(2)'),
    'torch tensor item outside': (
        'import torch\nk=torch.tensor([1])\nn=k.numpy()\ndef f(s): return s*10+int(n[0])',
        'k.fill_(2)'),
    'torch size': (
        'import torch\nk=torch.zeros(1)\ndef f(s): return s*10+k.shape[0]',
        'k.resize_(2)'),
    'module training flag': (
        'import torch\nm=torch.nn.Dropout(.5)\ndef f(s): return (s,m.training)',
        'm.eval()'),
    'module buffer': (
        "import torch\nm=torch.nn.Module();m.register_buffer('k',torch.tensor(1))\ndef f(s): return s*10+int(m.k)",
        'm.k.fill_(2)'),
    'contextvar reset': (
        "import contextvars\nv=contextvars.ContextVar('vv',default=1)\ndef g(): return v.get()\ndef f(s): return s*10+g()",
        'tok=v.set(2)',
        'v.reset(tok)'),
    'contextvar holding list': (
        "import contextvars\nl=[1]\nv=contextvars.ContextVar('vw',default=l)\ndef f(s): return s*10+v.get()[0]",
        'l[0]=2'),
    'environ get': (
        "import os\nos.environ['TRK']='1'\ndef f(s): return s*10+int(os.environ.get('TRK'))",
        "os.environ['TRK']='2'",
        "os.environ.pop('TRK',None)"),
    'expandvars': (
        "import os\nos.environ['TRK']='1'\ndef f(s): return os.path.expandvars('$TRK')+str(s)",
        "os.environ['TRK']='2'",
        "os.environ.pop('TRK',None)"),
    'locale format': (
        "import locale\ndef f(s): return f'{1234567:n}'+str(s)",
        "import locale\nold=locale.setlocale(locale.LC_NUMERIC)\ntry: locale.setlocale(locale.LC_NUMERIC,'en_US.UTF-8')\nexcept locale.Error: f=lambda s:'none'+str(s)",
        'locale.setlocale(locale.LC_NUMERIC,old)'),
    'decimal localcontext helper': (
        'import decimal\nD=decimal.Decimal\ndef g(x): return D(1)/x\ndef f(s): return str(g(D(s+3)))',
        'decimal.getcontext().prec=4',
        'decimal.getcontext().prec=28'),
    'decimal capitals': (
        "import decimal\nd=decimal.Decimal('1E+30')\ndef f(s): return str(d)+str(s)",
        'decimal.getcontext().capitals=0',
        'decimal.getcontext().capitals=1'),
    'warnings filter': (
        "import warnings\ndef f(s):\n  try: warnings.warn('x'); return s\n  except UserWarning: return -1-s",
        "warnings.simplefilter('error')",
        "warnings.simplefilter('ignore')"),
    'np.errstate via errcall': (
        "import numpy as np\nnp.seterr(all='ignore')\ndef f(s):\n  try: return float(np.float64(1)/np.float64(0)) if s else 0.\n  except FloatingPointError: return -1.",
        "np.seterr(divide='raise')",
        "np.seterr(all='warn')"),
    'torch default dtype in helper': (
        'import torch\ndef g(): return torch.ones(1).dtype\ndef f(s): return (str(g()),s)',
        'torch.set_default_dtype(torch.float64)',
        'torch.set_default_dtype(torch.float32)'),
    'sys.getswitchinterval': (
        'import sys\ndef f(s): return (sys.getswitchinterval(),s)',
        'old=sys.getswitchinterval();sys.setswitchinterval(0.01)',
        'sys.setswitchinterval(old)'),
    'sys.flags-ish attr': (
        'import sys\nsys.trk=1\ndef f(s): return s*10+sys.trk',
        'sys.trk=2',
        'del sys.trk'),
    'sys.path': (
        'import sys\ndef f(s): return (len(sys.path),s)',
        "sys.path.append('zz')",
        "sys.path.remove('zz')"),
    'sys.argv': (
        'import sys\ndef f(s): return (len(sys.argv),s)',
        "sys.argv.append('zz')",
        "sys.argv.remove('zz')"),
    'file content': (
        "import tempfile,os\np=tempfile.mktemp()\nopen(p,'w').write('1')\ndef f(s): return s*10+int(open(p).read())",
        "open(p,'w').write('2')",
        'os.remove(p)'),
    'pathlib read': (
        "import tempfile,pathlib,os\np=pathlib.Path(tempfile.mktemp())\np.write_text('1')\ndef f(s): return s*10+int(p.read_text())",
        "p.write_text('2')",
        'p.unlink()'),
    'os.path.exists': (
        'import tempfile,os\np=tempfile.mktemp()\ndef f(s): return (os.path.exists(p),s)',
        "open(p,'w').close()",
        'os.remove(p)'),
    'sys.modules replaced import': (
        "import sys,types\na=types.ModuleType('trkm');a.k=1;b=types.ModuleType('trkm');b.k=2\nsys.modules['trkm']=a\ndef f(s):\n  import trkm\n  return s*10+trkm.k",
        "sys.modules['trkm']=b",
        "sys.modules.pop('trkm')"),
    'stdlib name replaced in sys.modules': (
        "import sys,types,math\nb=types.ModuleType('math');b.floor=lambda x:7\ndef f(s):\n  import math\n  return s*10+math.floor(1.5)",
        "sys.modules['math']=b",
        "sys.modules['math']=math"),
    'int subclass state': (
        'class I(int):\n  pass\ni=I(1);i.k=1\ndef f(s): return s*10+i.k',
        'i.k=2'),
    'int subclass add': (
        'class I(int):\n  def __radd__(self,o): return o+self.k\ni=I(0);i.k=1\ndef f(s): return s*10+i',
        'i.k=2'),
    'str subclass state': (
        "class S(str): pass\nx=S('a');x.k=1\ndef f(s): return s*10+x.k",
        'x.k=2'),
    'list subclass': (
        'class L(list):\n  def __getitem__(self,i): return self.k\nx=L([1]);x.k=1\ndef f(s): return s*10+x[0]',
        'x.k=2'),
    'dict subclass missing': (
        'class D(dict):\n  def __missing__(self,k): return self.d\nx=D();x.d=1\ndef f(s): return s*10+x[s]',
        'x.d=2'),
    'property set on class later': (
        'class A: pass\na=A();A.k=1\ndef f(s): return s*10+a.k',
        'A.k=property(lambda self:2)'),
    'getattr on class added later': (
        'class A: pass\na=A()\ndef f(s):\n  try: return s*10+a.k\n  except AttributeError: return s',
        'A.__getattr__=lambda self,n:3'),
    'getattribute added later': (
        'class A: pass\na=A();a.k=1\ndef f(s): return s*10+a.k',
        'A.__getattribute__=lambda self,n:3'),
    'weakref dead': (
        'import weakref\nclass A: pass\na=A()\nr=weakref.ref(a)\ndef f(s): return (r() is None,s)',
        'del a'),
    'weak value dict': (
        'import weakref\nclass A: pass\na=A()\nw=weakref.WeakValueDictionary(k=a)\ndef f(s): return (len(w),s)',
        'del a'),
    'weakset': (
        'import weakref\nclass A: pass\na=A()\nw=weakref.WeakSet([a])\ndef f(s): return (len(w),s)',
        'del a'),
    'bound method rebinding': (
        'class A:\n  def __init__(self,k): self.k=k\n  def m(self,s): return s*10+self.k\na=A(1);b=A(2)\ng=a.m\ndef f(s): return g(s)',
        'g=b.m'),
    'bound method of changed self': (
        'class A:\n  def __init__(self,k): self.k=k\n  def m(self,s): return s*10+self.k\na=A(1)\nf=a.m',
        'a.k=2'),
    "exec'd code": (
        "scope={'k':1}\nexec('def g(s): return s*10+k',scope)\ng=scope['g']\ndef f(s): return g(s)",
        "scope['k']=2"),
    'exec inside': (
        "k=1\ndef f(s):\n  d={}\n  exec('x=k',globals(),d)\n  return s*10+d['x']",
        'k=2'),
    "compile'd code in a global": (
        "k=1\nc=compile('k','x','eval')\ndef f(s): return s*10+eval(c)",
        'k=2'),
    'attrgetter': (
        "import operator\nclass A: pass\na=A();a.k=1\ng=operator.attrgetter('k')\ndef f(s): return s*10+g(a)",
        'a.k=2'),
    'attrgetter replaced': (
        "import operator\nclass A: pass\nsymbols=[0,1]\ng=operator.attrgetter('real')\ndef f(s): return g(s)",
        "g=operator.attrgetter('imag')"),
    'methodcaller': (
        "import operator\nclass A:\n  def m(self): return self.k\na=A();a.k=1\ng=operator.methodcaller('m')\ndef f(s): return s*10+g(a)",
        'a.k=2'),
    'itemgetter of list': (
        'import operator\nl=[1]\ng=operator.itemgetter(0)\ndef f(s): return s*10+g(l)',
        'l[0]=2'),
    're pattern replaced': (
        "import re\np=re.compile('a')\ndef f(s): return (bool(p.match('A')),s)",
        "p=re.compile('a',re.I)"),
    're flags global': (
        "import re\nfl=0\ndef f(s): return (bool(re.match('a','A',fl)),s)",
        'fl=re.I'),
    'logging level': (
        "import logging\nl=logging.getLogger('trk');l.setLevel(10)\ndef f(s): return (l.isEnabledFor(20),s)",
        'l.setLevel(50)'),
    'logging disable': (
        "import logging\nl=logging.getLogger('trk2');l.setLevel(10)\ndef f(s): return (l.isEnabledFor(20),s)",
        'logging.disable(50)',
        'logging.disable(0)'),
    'generator in closure': (
        'g=iter(range(100))\ndef f(s): return (s,g.__length_hint__())',
        'next(g)'),
    'itertools.count repr': (
        'import itertools\nc=itertools.count(1)\ndef f(s): return repr(c)+str(s)',
        'next(c)'),
    'itertools.cycle state': (
        'import itertools\nc=itertools.cycle([1,2])\ndef f(s): return repr(c.__reduce__())+str(s)',
        'next(c)'),
    'metaclass getattr': (
        'class M(type):\n  def __getattr__(cls,n): return K[0]\nclass A(metaclass=M): pass\nK=[1]\ndef f(s): return s*10+A.zz',
        'K[0]=2'),
    'metaclass instancecheck': (
        'K=[True]\nclass M(type):\n  def __instancecheck__(cls,o): return K[0]\nclass A(metaclass=M): pass\ndef f(s): return (isinstance(s,A),s)',
        'K[0]=False'),
    'subclasshook': (
        'import abc\nK=[True]\nclass A(abc.ABC):\n  @classmethod\n  def __subclasshook__(cls,c): return K[0]\ndef f(s): return (isinstance(s,A),s)',
        "K[0]=False;import abc;A._abc_caches_clear() if hasattr(A,'_abc_caches_clear') else None"),
    'class __call__ swapped': (
        'class A:\n  def __call__(self,s): return s*10+1\nf=A()',
        'A.__call__=lambda self,s:s*10+2'),
    'class bases changed': (
        'class B1:\n  k=1\nclass B2:\n  k=2\nclass A(B1): pass\na=A()\ndef f(s): return s*10+a.k',
        'A.__bases__=(B2,)'),
    'init_subclass registry': (
        'R=[]\nclass B:\n  def __init_subclass__(cls): R.append(cls)\ndef f(s): return (len(R),s)',
        'class Z(B): pass'),
    'subclasses listing': (
        'class B: pass\ndef f(s): return (len(B.__subclasses__()),s)',
        'class Z(B): pass'),
    'slots default via class': (
        "class A:\n  __slots__=('k',)\na=A();a.k=[1]\ndef f(s): return s*10+a.k[0]",
        'a.k[0]=2'),
    'namedtuple with list': (
        "import collections\nP=collections.namedtuple('P','k')\np=P([1])\ndef f(s): return s*10+p.k[0]",
        'p.k[0]=2'),
    'frozen dataclass with list': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  k:list\np=P([1])\ndef f(s): return s*10+p.k[0]',
        'p.k[0]=2'),
    'dataclass default_factory state': (
        'import dataclasses\nK=[1]\n@dataclasses.dataclass\nclass P:\n  k:int=dataclasses.field(default_factory=lambda:K[0])\ndef f(s): return s*10+P().k',
        'K[0]=2'),
    'dataclass post_init': (
        "import dataclasses\nK=[1]\n@dataclasses.dataclass(frozen=True)\nclass P:\n  x:int\n  def __post_init__(self): object.__setattr__(self,'x',self.x+K[0])\ndef f(s): return P(s).x",
        'K[0]=2'),
    'enum auto values': (
        'import enum\nK=[1]\nclass C(enum.Enum):\n  A=1\n  def m(self): return K[0]\ndef f(s): return s*10+C.A.m()',
        'K[0]=2'),
    'string.Formatter subclass': (
        "import string\nclass F(string.Formatter):\n  k='1'\n  def get_value(self,key,a,kw): return self.k\nx=F()\ndef f(s): return x.format('{0}',s)+str(s)",
        "F.k='2'"),
    'format of a class': (
        "class A:\n  def __format__(self,sp): return str(K[0])\nK=[1]\na=A()\ndef f(s): return f'{a}{s}'",
        'K[0]=2'),
    'contextmanager helper': (
        'import contextlib\nK=[1]\n@contextlib.contextmanager\ndef c(): yield K[0]\ndef f(s):\n  with c() as k: return s*10+k',
        'K[0]=2'),
    'wraps chain': (
        'import functools\nK=[1]\ndef d(g):\n  @functools.wraps(g)\n  def w(*a): return g(*a)+K[0]\n  return w\n@d\n@d\ndef f(s): return s*10',
        'K[0]=2'),
    'default mutable helper': (
        'def g(s,c=[1]): return s*10+c[0]\ndef f(s): return g(s)',
        'g.__defaults__[0][0]=2'),
    'kwdefault mutable': (
        "def g(s,*,c={'k':1}): return s*10+c['k']\ndef f(s): return g(s)",
        "g.__kwdefaults__['c']['k']=2"),
    'annotations read': (
        "def g(x:1): pass\ndef f(s): return s*10+g.__annotations__['x']",
        "g.__annotations__['x']=2"),
    'function dict helper': (
        "def g(): pass\ng.t={'k':1}\ndef f(s): return s*10+g.t['k']",
        "g.t['k']=2"),
    'lambda in dict of tuple': (
        "K=[1]\nD={'a':(lambda s:s*10+K[0],)}\ndef f(s): return D['a'][0](s)",
        'K[0]=2'),
    'recursive structure': (
        'a=[1];a.append(a)\ndef f(s): return s*10+a[1][0]',
        'a[0]=2'),
    'star import style': (
        "import types\nm=types.ModuleType('mm');m.k=1\nglobals().update(vars(m))\ndef f(s): return s*10+k",
        'k=2'),
    'del global falls to builtin': (
        'def len(x): return 9\ndef f(s): return s*10+len([1])',
        'del len'),
    'builtins attribute': (
        'import builtins\nbuiltins.trk=1\ndef f(s): return s*10+trk',
        'builtins.trk=2',
        'del builtins.trk'),
    'json encoder default': (
        'import json\nclass E(json.JSONEncoder):\n  def default(self,o): return K[0]\nK=[1]\nclass A: pass\ndef f(s): return json.dumps([A(),s],cls=E)',
        'K[0]=2'),
    'json object hook': (
        "import json\nK=[1]\ndef h(d): return K[0]\ndef f(s): return json.loads('{}',object_hook=h)*10+s",
        'K[0]=2'),
    'sorted key closure': (
        'K=[1]\ndef f(s): return tuple(sorted([1,2],key=lambda x:x*K[0])),s',
        'K[0]=-1'),
    'heap of objects': (
        'import heapq\nclass A:\n  def __init__(s,v): s.v=v\n  def __lt__(s,o): return s.v*K[0]<o.v*K[0]\nK=[1]\ndef f(s): return heapq.nsmallest(1,[A(1),A(2)])[0].v*10+s',
        'K[0]=-1'),
    'str method table': (
        "t=str.maketrans('a','b')\ndef f(s): return 'a'.translate(t)+str(s)",
        "t[97]='c'"),
    "symbol's class attribute": (
        'import typing\nclass P(typing.NamedTuple):\n  x:int\n  def m(self): return self.x*10+K[0]\nK=[1]\nsymbols=[P(0),P(1)]\ndef f(s): return s.m()',
        'K[0]=2'),
    "symbol's eq replaced": (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  x:int\nsymbols=[P(0),P(1)]\ndef f(s): return (s==P(5),s.x)',
        'P.__eq__=lambda a,b: True'),
    "symbol's str replaced": (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  x:int\nsymbols=[P(0),P(1)]\ndef f(s): return str(s)',
        "P.__str__=lambda a: 'P%d'%a.x"),
    'torch.Tensor method patched': (
        'import torch\ndef f(s): return float(torch.tensor([3.,4.]).sum())*10+s',
        'old=torch.Tensor.sum\ntorch.Tensor.sum=lambda self,*a,**k: torch.tensor(1.)',
        'torch.Tensor.sum=old'),
    'np function patched by name': (
        'import numpy as np\ndef f(s): return float(np.sum([3,4]))*10+s',
        'old=np.sum\nnp.sum=lambda x: 1.',
        'np.sum=old'),
    'math patched': (
        'import math\ndef f(s): return math.floor(1.5)*10+s',
        'old=math.floor\nmath.floor=lambda x: 7',
        'math.floor=old'),
    'from math then patched': (
        'from math import floor\nimport math\ndef f(s): return floor(1.5)*10+s',
        'floor=lambda x:7'),
    'mock patch object': (
        'import unittest.mock,fractions\ndef f(s): return str(fractions.Fraction(s,3).limit_denominator(10))',
        "p=unittest.mock.patch.object(fractions.Fraction,'limit_denominator',lambda self,n: 9);p.start()",
        'p.stop()'),
    'copy hooks': (
        'import copy\nclass A:\n  def __copy__(self): return K[0]\nK=[1]\na=A()\ndef f(s): return copy.copy(a)*10+s',
        'K[0]=2'),
    'type() built class': (
        "K=[1]\nA=type('A',(),{'m':lambda self:K[0]})\ndef f(s): return A().m()*10+s",
        'K[0]=2'),
    'SimpleNamespace nested': (
        'import types\nn=types.SimpleNamespace(a=types.SimpleNamespace(k=[1]))\ndef f(s): return s*10+n.a.k[0]',
        'n.a.k[0]=2'),
    'hash seed like': (
        'class A:\n  def __hash__(self): return K[0]\nK=[1]\na=A()\ndef f(s): return hash(a)*10+s',
        'K[0]=2'),
    'len of object': (
        'class A:\n  def __len__(self): return K[0]\nK=[1]\na=A()\ndef f(s): return len(a)*10+s',
        'K[0]=2'),
    'index of object': (
        'class A:\n  def __index__(self): return K[0]\nK=[1]\na=A()\ndef f(s): return [5,6,7][a]*10+s',
        'K[0]=2'),
    'iter of class': (
        'class M(type):\n  def __iter__(cls): return iter(K)\nclass A(metaclass=M): pass\nK=[1]\ndef f(s): return sum(A)*10+s',
        'K[0]=2'),
    'class_getitem': (
        'class A:\n  def __class_getitem__(cls,i): return K[0]\nK=[1]\ndef f(s): return A[s]*10+s',
        'K[0]=2'),
    'set_name descriptor': (
        'class D:\n  def __set_name__(self,o,n): self.n=n\n  def __get__(self,o,t=None): return K[0]\nclass A:\n  k=D()\nK=[1]\na=A()\ndef f(s): return a.k*10+s',
        'K[0]=2'),
    'await-less async helper list': (
        'K=[1]\ndef g():\n  return [K[0] for _ in range(1)]\ndef f(s): return g()[0]*10+s',
        'K[0]=2'),
    'assert message off': (
        'K=[1]\ndef f(s):\n  try:\n    assert s*0+K[0]==1\n    return s\n  except AssertionError: return -1-s',
        'K[0]=2'),
    'try finally global': (
        'K=[1]\ndef f(s):\n  try: return s*10\n  finally:\n    if K[0]==2: return s*10+5',
        'K[0]=2'),
    'match mapping pattern': (
        "K={'a':1}\ndef f(s):\n  match K:\n    case {'a':1}: return s\n    case _: return -1-s",
        "K['a']=2"),
    'walrus comprehension': (
        'K=[1]\ndef f(s): return [y:=K[0],y*10+s][1]',
        'K[0]=2'),
    'unpacked global': (
        'K=(1,2)\ndef f(s):\n  a,b=K\n  return a*10+s',
        'K=(5,2)'),
    'augmented local alias': (
        'K=[1]\ndef f(s):\n  k=K\n  return k[0]*10+s',
        'K[0]=2'),
    'nested class closure': (
        'def make():\n  K=[1]\n  class A:\n    def m(self): return K[0]\n  def f(s): return A().m()*10+s\n  return f,K\nf,K=make()',
        'K[0]=2'),
    'type alias generics': (
        'import typing\nT=typing.List[int]\ndef f(s): return (T.__args__[0].__name__,s)',
        'T=typing.List[str]'),
    'zip of globals': (
        'A=[1];B=[2]\ndef f(s): return sum(a*b for a,b in zip(A,B))*10+s',
        'B[0]=3'),
    'map over global object method': (
        'class A:\n  def m(self,x): return x*self.k\na=A();a.k=1\ndef f(s): return list(map(a.m,[s+1]))[0]',
        'a.k=2'),
    'uuid namespace int': (
        'import uuid\nn=uuid.UUID(int=1)\ndef f(s): return (n.int,s)',
        'n=uuid.UUID(int=2)'),
    'time.tzset name': (
        'import time,os\ndef f(s): return (time.tzname[0],s)',
        "os.environ['TZ']='Asia/Tokyo';time.tzset()",
        "os.environ['TZ']='UTC';time.tzset()"),
    'csv dialect': (
        "import csv,io\ncsv.register_dialect('trk',delimiter=',')\ndef f(s): return next(csv.reader(['1;2,3'],'trk'))[0]+str(s)",
        "csv.register_dialect('trk',delimiter=';')"),
    'csv field limit': (
        "import csv\ndef f(s):\n  try: return len(next(csv.reader(['x'*200]))[0])+s\n  except csv.Error: return -1-s",
        'old=csv.field_size_limit(10)',
        'csv.field_size_limit(old)'),
    'reprlib maxlist': (
        'import reprlib\ndef f(s): return reprlib.repr(list(range(50)))+str(s)',
        'old=reprlib.aRepr.maxlist;reprlib.aRepr.maxlist=2',
        'reprlib.aRepr.maxlist=old'),
    'textwrap wrapper attr': (
        "import textwrap\nw=textwrap.TextWrapper(width=5)\ndef f(s): return w.fill('aa bb cc')+str(s)",
        'w.width=70'),
    'keyword list': (
        'import keyword\ndef f(s): return (len(keyword.kwlist),s)',
        "keyword.kwlist.append('zz')",
        'keyword.kwlist.pop()'),
    'string constants': (
        'import string\ndef f(s): return string.digits[0]+str(s)',
        "old=string.digits;string.digits='9'+old",
        'string.digits=old'),
    'copyreg table': (
        'import copy,copyreg\nclass A: pass\na=A();a.k=1\ndef f(s): return (type(copy.copy(A())).__name__,s)',
        'copyreg.pickle(A,lambda a:(int,()))',
        'copyreg.dispatch_table.pop(A)'),
    'gc enabled': (
        'import gc\ndef f(s): return (gc.isenabled(),s)',
        'gc.disable()',
        'gc.enable()'),
    'inspect source': (
        'import inspect\ndef g(): return 1\ndef f(s): return (inspect.signature(g).return_annotation is inspect.Signature.empty,s)',
        "g.__annotations__['return']=int"),
    'signature parameters': (
        'import inspect\ndef g(a): return 1\ndef f(s): return (len(inspect.signature(g).parameters),s)',
        'g.__signature__=inspect.Signature()'),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # some tricks change the filters
@pytest.mark.parametrize("name", TRICKS)
def test_the_second_answer_is_right(name):
    layout = LAYOUTS[list(TRICKS).index(name) % len(LAYOUTS)]
    Trick(*TRICKS[name]).check(layout)
