# ruff: noqa: E501 (programs in strings)
"""Changes of functions, containers and objects, each in one of the layouts; threads."""

from __future__ import annotations

import threading

import pytest

import dolphin as dl
from tricks import LAYOUTS, Trick

TRICKS = {
    'enum iter order': (
        'import enum\nclass C(enum.Enum):\n  A=0\n  B=1\ndef f(s): return list(C)[s].name',
        'C._member_names_.reverse()'),
    '__build_class__ patched': (
        'import builtins\nold=builtins.__build_class__\ndef f(s):\n  class A:\n    k=1\n  return A.k*10+s',
        "def bc(fn,name,*b,**k):\n  c=old(fn,name,*b,**k)\n  if name=='A': c.k=5\n  return c\nbuiltins.__build_class__=bc",
        'builtins.__build_class__=old'),
    '__import__ patched': (
        'import builtins,types\nold=builtins.__import__\ndef f(s):\n  import math\n  return math.floor(1.5)*10+s',
        "q=types.SimpleNamespace(floor=lambda x:7)\nbuiltins.__import__=lambda n,*a,**k: q if n=='math' and a and a[0].get('__name__')=='program_of_a_user' else old(n,*a,**k)",
        'builtins.__import__=old'),
    'mutable default appended': (
        'def g(s,seen=[]):\n  return len(seen)\ndef f(s): return s*10+g(s)',
        'g.__defaults__[0].append(1)'),
    'kwonly default helper': (
        "def g(s,*,t={'k':1}): return t['k']\ndef f(s): return s*10+g(s)",
        "g.__kwdefaults__['t']['k']=2"),
    'lambda code swap': (
        'g=lambda s: s*10+1\ndef f(s): return g(s)',
        'g.__code__=(lambda s: s*10+2).__code__'),
    'code replace consts': (
        'def f(s): return s*10+1',
        'f.__code__=f.__code__.replace(co_consts=tuple(2 if c==1 else c for c in f.__code__.co_consts))'),
    'helper code consts': (
        'def g(s): return s*10+1\ndef f(s): return g(s)',
        'g.__code__=g.__code__.replace(co_consts=tuple(2 if c==1 else c for c in g.__code__.co_consts))'),
    'partial args list': (
        'import functools\nl=[1]\nf=functools.partial(lambda l,s: s*10+l[0],l)',
        'l[0]=2'),
    'partial __setstate__': (
        'import functools\ndef g(k,s): return s*10+k\np=functools.partial(g,1)\ndef f(s): return p(s)',
        'p.__setstate__((g,(2,),{},{}))'),
    'partial keywords mutated': (
        'import functools\ndef g(s,k=0): return s*10+k\np=functools.partial(g,k=1)\ndef f(s): return p(s)',
        "p.keywords['k']=2"),
    'cmp_to_key object': (
        'import functools\nK=[1]\nkey=functools.cmp_to_key(lambda a,b:(a-b)*K[0])\ndef f(s): return sorted([s,5,3],key=key)[0]',
        'K[0]=-1'),
    'reduce over helper': (
        'import functools\nK=[1]\ndef f(s): return functools.reduce(lambda a,b:a*K[0]+b,[s,1])',
        'K[0]=5'),
    'lru of method': (
        'import functools\nclass A:\n  k=1\n  @functools.lru_cache\n  def m(self,s): return s*10+self.k\na=A()\ndef f(s): return a.m(s)',
        'a.k=2;A.m.cache_clear()'),
    'lru cache replaced': (
        'import functools\n@functools.lru_cache\ndef g(s): return s*10\ndef f(s): return g(s)',
        'g=functools.lru_cache(lambda s:s*10+1)'),
    'lru __wrapped__': (
        'import functools\n@functools.lru_cache\ndef g(s): return s*10\ndef f(s): return g.__wrapped__(s)',
        'g.__wrapped__=lambda s:s+5'),
    'lru wrapped code': (
        'import functools\ndef h(s): return s*10\ng=functools.lru_cache(h)\ndef f(s): return g(s)',
        'h.__code__=(lambda s:s+5).__code__;g.cache_clear()'),
    'singledispatch class': (
        'import functools\n@functools.singledispatch\ndef g(x): return 0\n@g.register\ndef _(x:int): return K\nK=1\ndef f(s): return g(s)*10+s',
        'K=2'),
    'wraps changed': (
        'import functools\ndef d(g):\n  @functools.wraps(g)\n  def w(s): return g(s)*K\n  return w\nK=1\n@d\ndef f(s): return s+3',
        'K=2'),
    'abc register': (
        'import abc\nclass A(abc.ABC): pass\ndef f(s): return (isinstance(s,A),s)',
        'A.register(int)'),
    'abc register helper': (
        'import collections.abc\nclass X: pass\nx=X\ndef f(s): return (isinstance(X(),collections.abc.Sized),s)',
        'collections.abc.Sized.register(X)'),
    'abc __len__ added': (
        'import collections.abc\nclass X: pass\ndef f(s): return (isinstance(X(),collections.abc.Sized),s)',
        "X.__len__=lambda self:0\ncollections.abc.Sized._abc_caches_clear() if hasattr(collections.abc.Sized,'_abc_caches_clear') else None\nimport abc\nabc.ABC.register(type('Z',(),{}))"),
    'typing Protocol runtime': (
        'import typing\n@typing.runtime_checkable\nclass P(typing.Protocol):\n  def m(self): ...\nclass A: pass\na=A()\ndef f(s): return (isinstance(a,P),s)',
        'A.m=lambda self:1'),
    'typing NewType': (
        "import typing\nN=typing.NewType('N',int)\ndef f(s): return (N.__name__,N(s))",
        "N.__name__='Q'"),
    'typing TypeVar': (
        "import typing\nV=typing.TypeVar('V',int,str)\ndef f(s): return (len(V.__constraints__),s)",
        "V=typing.TypeVar('V')"),
    'string.Template subclass delimiter': (
        "import string\nclass Z(string.Template):\n  delimiter='%'\ntt='%a'\ndef f(s): return Z(tt).safe_substitute(a=s)",
        "class Z(string.Template):\n  delimiter='$'"),
    'string.Formatter get_value': (
        "import string\nclass F(string.Formatter):\n  def get_value(self,k,a,kw): return K[0]\nK=[1]\nfm=F()\ndef f(s): return fm.format('{}',s)+str(s)",
        'K[0]=2'),
    'json cls': (
        'import json\nclass E(json.JSONEncoder):\n  def default(self,o): return K[0]\nK=[1]\ndef f(s): return json.dumps([{1},s],cls=E)',
        'K[0]=2'),
    'json default encoder attr': (
        "import json\ndef f(s): return json.dumps({'b':s,'a':'é'})",
        'json._default_encoder.ensure_ascii=False;json._default_encoder.sort_keys=True',
        'json._default_encoder.ensure_ascii=True;json._default_encoder.sort_keys=False'),
    'json parse_float': (
        "import json\nK=[1]\ndef pf(x): return float(x)*K[0]\ndef f(s): return json.loads('1.5',parse_float=pf)+s",
        'K[0]=2'),
    'copy __reduce__': (
        'import copy\nclass A:\n  def __reduce__(self): return (int,(K[0],))\nK=[1]\na=A()\ndef f(s): return copy.copy(a)*10+s',
        'K[0]=2'),
    'copy __deepcopy__': (
        'import copy\nclass A:\n  def __deepcopy__(self,m): return K[0]\nK=[1]\nl=[A()]\ndef f(s): return copy.deepcopy(l)[0]*10+s',
        'K[0]=2'),
    'sorted key object': (
        'class Key:\n  def __init__(self,v): self.v=v\n  def __lt__(self,o): return self.v*K[0]<o.v*K[0]\nK=[1]\ndef f(s): return sorted([s,5,3],key=Key)[0]',
        'K[0]=-1'),
    'sorted key attribute object': (
        'class R:\n  def __init__(self): self.w={0:1,1:2,5:3}\n  def __call__(self,x): return self.w[x]\nr=R()\ndef f(s): return sorted([s,5],key=r)[0]',
        'r.w[5]=-1'),
    'min with key method': (
        'class R:\n  def __init__(self): self.w={0:1,1:2,5:3}\n  def k(self,x): return self.w[x]\nr=R()\ndef f(s): return min([s,5],key=r.k)',
        'r.w[5]=-1'),
    'bisect key': (
        'import bisect\nK={0:0,1:1,2:2}\ndef f(s): return bisect.bisect([0,1,2],s,key=lambda x:K[x])',
        'K[2]=-5;K[1]=-5'),
    'heapq with tuple objects': (
        'import heapq\nclass A:\n  def __init__(self,v): self.v=v\n  def __lt__(self,o): return (self.v<o.v)^K[0]\nK=[False]\ndef f(s): return heapq.nsmallest(1,[A(s),A(5)])[0].v',
        'K[0]=True'),
    'iterator consumed by f': (
        'it=iter([1,2,3,4,5,6,7,8,9]*50)\ndef f(s): return (s,it.__length_hint__()>440)',
        '[next(it) for _ in range(20)]'),
    'file handle position': (
        "import tempfile\nh=tempfile.TemporaryFile('w+')\nh.write('abc');h.seek(0)\ndef f(s): return (h.tell(),s)",
        'h.read()', 'h.close()'),
    'StringIO': (
        "import io\nb=io.StringIO('a')\ndef f(s): return b.getvalue()+str(s)",
        "b.write('Q')"),
    'BytesIO buffer': (
        "import io\nb=io.BytesIO(b'a');m=b.getbuffer()\ndef f(s): return m[0]*10+s",
        'm[0]=66'),
    'array array': (
        "import array\na=array.array('i',[1,2])\ndef f(s): return a[s]",
        'a[0]=9'),
    'memoryview cast': (
        "import array\na=array.array('i',[1,2]);m=memoryview(a)\ndef f(s): return m[s]",
        'a[0]=9'),
    'ctypes int': (
        'import ctypes\nc=ctypes.c_int(1)\ndef f(s): return c.value*10+s',
        'c.value=2'),
    'ctypes array': (
        'import ctypes\nc=(ctypes.c_int*2)(1,2)\ndef f(s): return c[s]',
        'c[0]=9'),
    'ctypes struct': (
        "import ctypes\nclass S(ctypes.Structure):\n  _fields_=[('k',ctypes.c_int)]\nc=S(1)\ndef f(s): return c.k*10+s",
        'c.k=2'),
    'struct Struct replaced': (
        "import struct\nst=struct.Struct('<i')\ndef f(s): return st.pack(s)",
        "st=struct.Struct('>i')"),
    'struct Struct __init__': (
        "import struct\nst=struct.Struct('<i')\ndef f(s): return st.pack(s)",
        "st.__init__('>i')"),
    'zoneinfo key': (
        'import zoneinfo,datetime\nz=datetime.timezone(datetime.timedelta(hours=1))\nd=datetime.datetime(2020,1,1,tzinfo=datetime.timezone.utc)\ndef f(s): return d.astimezone(z).hour*10+s',
        'z=datetime.timezone(datetime.timedelta(hours=5))'),
    'tzinfo subclass state': (
        "import datetime\nclass Z(datetime.tzinfo):\n  def utcoffset(self,d): return datetime.timedelta(hours=K[0])\n  def dst(self,d): return None\n  def tzname(self,d): return 'z'\nK=[1]\nd=datetime.datetime(2020,1,1,tzinfo=Z())\ndef f(s): return d.utcoffset().seconds*10+s",
        'K[0]=2'),
    'tzinfo in symbols': (
        "import datetime\nclass Z(datetime.tzinfo):\n  def utcoffset(self,d): return datetime.timedelta(hours=K[0])\n  def dst(self,d): return None\n  def tzname(self,d): return 'z'\nK=[1]\nz=Z()\nsymbols=[datetime.datetime(2020,1,i,tzinfo=z) for i in (1,2)]\ndef f(s): return s.utcoffset().seconds+s.day",
        'K[0]=2'),
    're flags enum': (
        "import re\nfl=[re.I]\ndef f(s): return (bool(re.match('a','A',*fl)),s)",
        'fl.clear()'),
    're sub with function': (
        "import re\nK=['b']\ndef rep(m): return K[0]\ndef f(s): return re.sub('a',rep,'a')+str(s)",
        "K[0]='c'"),
    're Scanner': (
        "import re\nK=[1]\nsc=re.Scanner([('a',lambda sc,t:K[0])])\ndef f(s): return sc.scan('a')[0][0]*10+s",
        'K[0]=2'),
    'deque maxlen': (
        'import collections\nd=collections.deque([1,2],maxlen=2)\ndef f(s): return d[0]*10+s',
        'd.append(3)'),
    'OrderedDict order': (
        'import collections\nd=collections.OrderedDict(a=1,b=2)\ndef f(s): return list(d)[s]',
        "d.move_to_end('a')"),
    'mappingproxy of class': (
        "class A:\n  k=1\nm=A.__dict__\ndef f(s): return m['k']*10+s",
        'A.k=2'),
    'UserString': (
        "import collections\nu=collections.UserString('a')\ndef f(s): return str(u)+str(s)",
        "u.data='b'"),
    'UserList nested': (
        'import collections\nu=collections.UserList([[1]])\ndef f(s): return u[0][0]*10+s',
        'u[0][0]=2'),
    'ChainMap nested': (
        "import collections\na={'k':[1]}\nc=collections.ChainMap({},collections.ChainMap({},a))\ndef f(s): return c['k'][0]*10+s",
        "a['k'][0]=2"),
    'dict items view': (
        'd={0:1,1:2}\nv=d.items()\ndef f(s): return dict(v)[s]',
        'd[0]=9'),
    'types.MappingProxy nested': (
        "import types\nd={'k':{'j':1}}\nm=types.MappingProxyType(d)\ndef f(s): return m['k']['j']*10+s",
        "d['k']['j']=2"),
    'weakref proxy': (
        'import weakref\nclass A: pass\na=A();a.k=1\np=weakref.proxy(a)\ndef f(s): return p.k*10+s',
        'a.k=2'),
    'weakmethod': (
        'import weakref\nclass A:\n  k=1\n  def m(self): return self.k\na=A()\nw=weakref.WeakMethod(a.m)\ndef f(s): return w()()*10+s',
        'a.k=2'),
    'weakkeydict': (
        'import weakref\nclass A: pass\na=A()\nw=weakref.WeakKeyDictionary({a:1})\ndef f(s): return sum(w.values())*10+s',
        'w[a]=2'),
    'finalize alive': (
        'import weakref\nclass A: pass\na=A()\nw=weakref.finalize(a,int)\ndef f(s): return (w.alive,s)',
        'del a'),
    'warnings registry': (
        'import warnings\ndef f(s): return (len(warnings.filters),s)',
        "warnings.filters.insert(0,('ignore',None,Warning,None,987))",
        'warnings.filters.pop(0)'),
    'exception with state': (
        'class E(Exception): pass\ne=E(1)\ndef f(s):\n  try: raise e\n  except E as x: return x.args[0]*10+s',
        'e.args=(2,)'),
    'generator object in global': (
        'def gen():\n  while True: yield K[0]\nK=[1]\ng=gen()\ndef f(s): return next(g)*10+s',
        'K[0]=2'),
    'coroutine helper': (
        'K=[1]\nasync def co(): return K[0]\ndef f(s):\n  c=co()\n  try: c.send(None)\n  except StopIteration as e: return e.value*10+s',
        'K[0]=2'),
    'async gen list comp': (
        "K=[1]\ndef f(s): return [x for x in (K[0] for _ in '1')][0]*10+s",
        'K[0]=2'),
    'match class pattern': (
        "class P:\n  __match_args__=('x',)\n  def __init__(self): self.x=1;self.y=2\np=P()\ndef f(s):\n  match p:\n    case P(v): return v*10+s",
        "P.__match_args__=('y',)"),
    'star args global': (
        'A=[1,2]\ndef g(*a): return sum(a)\ndef f(s): return g(*A)*10+s',
        'A.append(5)'),
    'fstring nested spec': (
        "W=[3]\ndef f(s): return f'{s:{W[0]}}'",
        'W[0]=5'),
    'percent dict': (
        "W={'a':1}\ndef f(s): return '%(a)d'%W+str(s)",
        "W['a']=2"),
    'str.format_map': (
        "W={'a':1}\ndef f(s): return '{a}'.format_map(W)+str(s)",
        "W['a']=2"),
    'str.translate table': (
        "W={97:'b'}\ndef f(s): return 'a'.translate(W)+str(s)",
        "W[97]='c'"),
    'int.__add__ wrapper': (
        'K=[int.__add__]\ndef f(s): return K[0](s,5)',
        'K[0]=int.__mul__'),
    'slice global': (
        'K=[slice(0,1)]\nL=[1,2,3]\ndef f(s): return len(L[K[0]])*10+s',
        'K[0]=slice(0,3)'),
    'range in tuple': (
        'K=(range(3),)\ndef f(s): return len(K[0])*10+s',
        'K=(range(5),)'),
    'nonlocal counter in helper': (
        'def make():\n  n=0\n  def g():\n    nonlocal n\n    n+=1\n    return n\n  def f(s): return (s,g()>10**6 or q[0])\n  return f\nq=[1]\nf=make()',
        'q[0]=2'),
    'setattr trick in helper': (
        'class A: pass\na=A();a.k=1\ndef g(o): return o.k\ndef f(s): return g(a)*10+s',
        'a.k=2'),
    'object in list attr': (
        'class A: pass\na=A();a.k=1\nL=[a]\ndef f(s): return L[0].k*10+s',
        'a.k=2'),
    'object in dict attr': (
        "class A: pass\na=A();a.k=1\nL={'x':a}\ndef f(s): return L['x'].k*10+s",
        'a.k=2'),
    'object in tuple loop': (
        'class A: pass\na=A();a.k=1\nL=(a,)\ndef f(s): return sum(o.k for o in L)*10+s',
        'a.k=2'),
    'object returned by helper': (
        'class A: pass\na=A();a.k=1\ndef g(): return a\ndef f(s): return g().k*10+s',
        'a.k=2'),
    'local alias of object': (
        'class A: pass\na=A();a.k=1\ndef f(s):\n  o=a\n  return o.k*10+s',
        'a.k=2'),
    'walrus alias of object': (
        'class A: pass\na=A();a.k=1\ndef f(s): return (o:=a).k*10+s',
        'a.k=2'),
    'attr of conditional object': (
        'class A: pass\na=A();a.k=1\nb=A();b.k=3\ndef f(s): return (a if s else b).k*10+s',
        'a.k=2;b.k=7'),
    'attr of or-object': (
        'class A: pass\na=A();a.k=1\ndef f(s): return (None or a).k*10+s',
        'a.k=2'),
    'global in class body of f': (
        'K=1\ndef f(s):\n  class B:\n    z=K\n    def m(self): return self.z\n  return B().m()*10+s',
        'K=2'),
    'global via del': (
        'K=1\ndef f(s):\n  try: return K*10+s\n  except NameError: return -s',
        'del K'),
    'global becomes property-like': (
        'class A:\n  def __radd__(self,o): return o+Z[0]\nZ=[1]\nK=1\ndef f(s): return s*10+K',
        'K=A();Z[0]=4'),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # some tricks change the filters, or divide by 0
@pytest.mark.parametrize("name", TRICKS)
def test_the_second_answer_is_right(name):
    Trick(*TRICKS[name]).check(LAYOUTS[list(TRICKS).index(name) % len(LAYOUTS)])


class Default(threading.local):
    k = 1


@pytest.mark.parametrize("make", [threading.local, Default])
def test_each_thread_has_its_own_values(make):
    local = make()
    local.k = 1

    def f(s):
        return 10 * s + local.k

    def answers(k):
        local.k = k
        found.append(dl.Distribution([0.5, 0.5], [0, 1]).map(f).symbols)

    found = []
    answers(1)
    for k in (2, 3):
        thread = threading.Thread(target=answers, args=(k,))
        thread.start()
        thread.join()
    answers(4)
    assert found == [(1, 11), (2, 12), (3, 13), (4, 14)]
    (only,) = dl.cache_info().not_remembered
    assert only.reason == "reads `local.k`, which differs from thread to thread"


@pytest.mark.parametrize("make", [threading.local, Default])
def test_samples_dont_have_the_values_of_the_callers_thread(make):
    local = make()
    local.k = 5
    program = dl.batched(lambda d: d.map(lambda s: s + local.k))
    with pytest.raises(dl.FunctionError, match=r"reads `local\.k`, a threading\.local"):
        program(dl.Distribution([[0.5, 0.5]] * 2, [0, 1]))
