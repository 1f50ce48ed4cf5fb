# ruff: noqa: E501 (programs in strings)
"""Patches beneath what is called, equal values that differ, enums, codecs: never a stale answer."""

from __future__ import annotations

import pytest

from tricks import LAYOUTS, Trick

EQUAL = {
    'compare=False field of a symbol, forced': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  x:int\n  n:int=dataclasses.field(default=1,compare=False)\nsymbols=[P(0),P(1)]\ndef f(s): return s.x*10+s.n',
        "object.__setattr__(symbols[0],'n',7)"),
    'compare=False field of equal symbols': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  x:int\n  n:int=dataclasses.field(default=1,compare=False)\nsymbols=[P(0),P(1)]\ndef f(s): return s.x*10+s.n',
        'symbols=[P(0,5),P(1,6)]'),
    'compare=False in a tuple symbol': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  x:int\n  n:int=dataclasses.field(default=1,compare=False)\nsymbols=[(P(0),1),(P(1),1)]\ndef f(s): return s[0].x*10+s[0].n',
        'symbols=[(P(0,5),1),(P(1,6),1)]'),
    'compare=False nested dataclass': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  x:int\n  n:int=dataclasses.field(default=1,compare=False)\n@dataclasses.dataclass(frozen=True)\nclass Q:\n  p:P\nsymbols=[Q(P(0)),Q(P(1))]\ndef f(s): return s.p.x*10+s.p.n',
        'symbols=[Q(P(0,5)),Q(P(1,6))]'),
    'eq of its own in a frozen dataclass': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True,eq=False)\nclass P:\n  x:int\n  n:int=1\n  def __eq__(self,o): return self.x==o.x\n  def __hash__(self): return hash(self.x)\nsymbols=[P(0),P(1)]\ndef f(s): return s.x*10+s.n',
        'symbols=[P(0,5),P(1,6)]'),
    'eq of its own in a named tuple': (
        'import typing\nclass P(typing.NamedTuple):\n  x:int\n  n:int=1\n  def __eq__(self,o): return self.x==o.x\n  def __hash__(self): return hash(self.x)\nsymbols=[P(0),P(1)]\ndef f(s): return s.x*10+s.n',
        'symbols=[P(0,5),P(1,6)]'),
    'tuple subclass eq': (
        'class P(tuple):\n  __slots__=()\n  def __eq__(self,o): return self[0]==o[0]\n  def __hash__(self): return hash(self[0])\nsymbols=[P((0,1)),P((1,1))]\ndef f(s): return s[0]*10+s[1]',
        'symbols=[P((0,5)),P((1,6))]'),
    'compare=False constant forced': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  x:int\n  n:int=dataclasses.field(default=1,compare=False)\np=P(1)\ndef f(s): return s*10+p.n',
        "object.__setattr__(p,'n',7)"),
    'compare=False constant whole': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  x:int\n  n:int=dataclasses.field(default=1,compare=False)\np=P(1)\ndef g(p): return p.n\ndef f(s): return s*10+g(p)',
        "object.__setattr__(p,'n',7)"),
    'enum private class name': (
        'import enum\nclass C(enum.Enum):\n  A=1\n  B=2\n  def m(self): return self._C__k\nC._C__k=1\nsymbols=[C.A,C.B]\ndef f(s): return s.value*10+s.m()',
        'C._C__k=2'),
    'enum private name in body': (
        'import enum\nclass C(enum.Enum):\n  __k=[1]\n  A=1\n  B=2\n  def m(self): return self.__k[0]\nsymbols=[C.A,C.B]\ndef f(s): return s.value*10+s.m()',
        'C._C__k[0]=2'),
    'enum late class attribute': (
        'import enum\nclass C(enum.Enum):\n  A=1\n  B=2\nC.k=1\nsymbols=[C.A,C.B]\ndef f(s): return s.value*10+s.k',
        'C.k=2'),
    'enum _name_ forced': (
        'import enum\nclass C(enum.Enum):\n  A=1\n  B=2\nsymbols=[C.A,C.B]\ndef f(s): return s.name',
        "C.A._name_='Z'"),
    'enum _value_ forced': (
        'import enum\nclass C(enum.Enum):\n  A=1\n  B=2\nsymbols=[C.A,C.B]\ndef f(s): return s.value',
        'C.A._value_=9'),
    'enum value2member': (
        'import enum\nclass C(enum.Enum):\n  A=1\n  B=2\ndef f(s): return C(s+1).name',
        'C._value2member_map_[1]=C.B'),
    'enum member attr private': (
        'import enum\nclass C(enum.Enum):\n  A=1\n  B=2\nC.A._k=1;C.B._k=1\nsymbols=[C.A,C.B]\ndef f(s): return s.value*10+s._k',
        'C.A._k=2'),
    'enum _missing_': (
        'import enum\nk=1\nclass C(enum.Enum):\n  A=1\n  B=2\n  @classmethod\n  def _missing_(cls,v): return cls(k)\ndef f(s): return C(s+50).name+str(s)',
        'k=2'),
    'enum descriptor list': (
        "import enum\nclass C(enum.Enum):\n  A=1\n  B=2\n  @property\n  def m(self): return T[self.name]\nT={'A':1,'B':1}\nsymbols=[C.A,C.B]\ndef f(s): return s.value*10+s.m",
        "T['A']=5"),
    'enum flag alias': (
        'import enum\nclass C(enum.IntFlag):\n  A=1\n  B=2\nC.extra=[1]\ndef f(s): return int(C.A)*10+s+C.extra[0]',
        'C.extra[0]=2'),
    'is between equal tuples': (
        't=[(1,2),(1,2)]\nt[1]=t[0]\ndef f(s): return (s,t[0] is t[1])',
        't[1]=tuple([1,2])'),
    'is between equal nested tuples': (
        'a=(1,2)\nt=((a,a),)\ndef f(s): return (s,t[0][0] is t[0][1])',
        't=((a,tuple([1,2])),)'),
    'is between equal lists in a dict': (
        "a=[1]\nt={'a':a,'b':a}\ndef f(s): return (s,t['a'] is t['b'])",
        "t['b']=[1]"),
    'is between frozensets': (
        'a=frozenset([1,2])\nt=[a,a]\ndef f(s): return (s,t[0] is t[1])',
        't[1]=frozenset([2,1])'),
    'is between large ints': (
        'a=10**9\nt=[a,a]\ndef f(s): return (s,t[0] is t[1])',
        "t[1]=int('1000000000')"),
    'is between strings': (
        "a='hello world'\nt=[a,a]\ndef f(s): return (s,t[0] is t[1])",
        "t[1]=''.join(['hello',' world'])"),
    'is between floats': (
        'a=1.5\nt=[a,a]\ndef f(s): return (s,t[0] is t[1])',
        "t[1]=float('1.5')"),
    'is in helper': (
        'a=(1,2)\nt=[a,a]\ndef g(x,y): return x is y\ndef f(s): return (s,g(*t))',
        't[1]=tuple([1,2])'),
    'is across globals': (
        'a=(1,2)\nb=a\ndef f(s): return (s,a is b)',
        'b=tuple([1,2])'),
    'is via operator': (
        'import operator\na=(1,2)\nt=[a,a]\ndef f(s): return (s,operator.is_(t[0],t[1]))',
        't[1]=tuple([1,2])'),
    'is_not via operator closure': (
        'from operator import is_not\na=(1,2)\nt=[a,a]\ndef f(s): return (s,is_not(*t))',
        't[1]=tuple([1,2])'),
    'is across global and attribute': (
        'import types\na=(1,2)\nn=types.SimpleNamespace(k=a)\ndef f(s): return (s,a is n.k)',
        'n.k=tuple([1,2])'),
    'is across default': (
        'a=(1,2)\ndef f(s,t=a): return (s,t is a)',
        'a=tuple([1,2])'),
    'codec error handler custom': (
        "import codecs\ncodecs.register_error('trick',lambda e:('1',e.end))\ndef f(s): return 'é'.encode('ascii','trick').decode()+str(s)",
        "codecs.register_error('trick',lambda e:('2',e.end))"),
    'codec handler name in global': (
        "import codecs\ncodecs.register_error('trick2',lambda e:('1',e.end))\nn='trick2'\ndef f(s): return 'é'.encode('ascii',n).decode()+str(s)",
        "codecs.register_error('trick2',lambda e:('2',e.end))"),
    'codec handler reads state': (
        "import codecs\nk=['1']\ncodecs.register_error('trick3',lambda e:(k[0],e.end))\ndef f(s): return 'é'.encode('ascii','trick3').decode()+str(s)",
        "k[0]='2'"),
    'codec handler via bytes()': (
        "import codecs\ncodecs.register_error('trick4',lambda e:('1',e.end))\ndef f(s): return bytes('é','ascii','trick4').decode()+str(s)",
        "codecs.register_error('trick4',lambda e:('2',e.end))"),
    'codec handler via str()': (
        "import codecs\ncodecs.register_error('trick5',lambda e:('1',e.end))\ndef f(s): return str(b'\\xff','ascii','trick5')+str(s)",
        "codecs.register_error('trick5',lambda e:('2',e.end))"),
    'codec handler namereplace': (
        "import codecs\nold=codecs.lookup_error('namereplace')\ndef f(s): return 'é'.encode('ascii','namereplace').decode()+str(s)",
        "codecs.register_error('namereplace',lambda e:('2',e.end))",
        "codecs.register_error('namereplace',old)"),
    'codec via codecs.encode': (
        "import codecs\ncodecs.register_error('trick6',lambda e:('1',e.end))\ndef f(s): return codecs.encode('é','ascii','trick6').decode()+str(s)",
        "codecs.register_error('trick6',lambda e:('2',e.end))"),
    'int subclass eq mod': (
        'class I(int):\n  def __eq__(self,o): return int(self)%10==int(o)%10\n  def __hash__(self): return int(self)%10\nsymbols=[I(0),I(1)]\ndef f(s): return int(s)+0',
        'symbols=[I(10),I(21)]'),
    'str subclass case eq': (
        "class S(str):\n  def __eq__(self,o): return str(self).lower()==str(o).lower()\n  def __hash__(self): return hash(str(self).lower())\nsymbols=[S('a'),S('b')]\ndef f(s): return str.__str__(s)+'!'",
        "symbols=[S('A'),S('B')]"),
    'float subclass eq': (
        'class S(float):\n  def __eq__(self,o): return int(self)==int(o)\n  def __hash__(self): return int(self)\nsymbols=[S(1.5),S(2.5)]\ndef f(s): return float(s)*2',
        'symbols=[S(1.25),S(2.25)]'),
    'eq tuple with dict': (
        'class P(tuple):\n  def __eq__(self,o): return self[0]==o[0]\n  def __hash__(self): return hash(self[0])\nsymbols=[P((0,1)),P((1,1))]\ndef f(s): return s[0]*10+s[1]',
        'symbols=[P((0,5)),P((1,6))]'),
    'frozenset subclass eq': (
        'class P(frozenset):\n  __slots__=()\n  def __eq__(self,o): return len(self)==len(o)\n  def __hash__(self): return len(self)\nsymbols=[P([1]),P([1,2])]\ndef f(s): return sum(s)',
        'symbols=[P([5]),P([6,7])]'),
    'class eq with hidden state': (
        'class P:\n  def __init__(self,x,n): self.x=x;self.n=n\n  def __eq__(self,o): return self.x==o.x\n  def __hash__(self): return hash(self.x)\nsymbols=[P(0,1),P(1,1)]\ndef f(s): return s.x*10+s.n',
        'symbols=[P(0,5),P(1,6)]'),
    'class eq mutated in place': (
        'class P:\n  def __init__(self,x,n): self.x=x;self.n=n\n  def __eq__(self,o): return self.x==o.x\n  def __hash__(self): return hash(self.x)\nsymbols=[P(0,1),P(1,1)]\ndef f(s): return s.x*10+s.n',
        'symbols[0].n=9'),
    'slots eq': (
        "class P:\n  __slots__=('x','n')\n  def __init__(self,x,n): self.x=x;self.n=n\n  def __eq__(self,o): return self.x==o.x\n  def __hash__(self): return hash(self.x)\nsymbols=[P(0,1),P(1,1)]\ndef f(s): return s.x*10+s.n",
        'symbols[0].n=9'),
    'two of unequal hidden state in nested tuple': (
        'class P:\n  def __init__(self,x,n): self.x=x;self.n=n\n  def __eq__(self,o): return self.x==o.x\n  def __hash__(self): return hash(self.x)\nsymbols=[(P(0,1),),(P(1,1),)]\ndef f(s): return s[0].x*10+s[0].n',
        'symbols[0][0].n=9'),
    'fraction subclass': (
        "import fractions\nclass Q(fractions.Fraction):\n  __slots__=('k',)\n  def __new__(cls,v,k):\n    o=super().__new__(cls,v); o.k=k; return o\nsymbols=[Q(0,1),Q(1,1)]\ndef f(s): return int(s)*10+s.k",
        'symbols=[Q(0,5),Q(1,6)]'),
    'datetime fold': (
        'import datetime\nsymbols=[datetime.datetime(2020,1,1),datetime.datetime(2020,1,2)]\ndef f(s): return s.fold+s.day*10',
        'symbols=[s.replace(fold=1) for s in symbols]'),
    'range symbols': (
        'symbols=[range(0,3,2),range(0,5,2)]\ndef f(s): return s.stop',
        'symbols=[range(0,4,2),range(0,6,2)]'),
}  # fmt: skip

BENEATH = {
    'beneath: statistics over fractions': (
        "import statistics,fractions\nold=fractions.Fraction._add if hasattr(fractions.Fraction,'_add') else None\ndef f(s): return str(statistics.mean([fractions.Fraction(s),fractions.Fraction(1)]))",
        'old2=fractions.Fraction.__truediv__\nfractions.Fraction.__truediv__=lambda a,b: 77',
        'fractions.Fraction.__truediv__=old2'),
    'beneath: textwrap over re': (
        "import textwrap,re\ndef f(s): return textwrap.dedent('  a')+str(s)",
        "old=re.sub\ntextwrap_re=re.sub\nre.compile\nre.sub=lambda *a,**k:'P'",
        're.sub=old'),
    'beneath: json over re/encoder': (
        "import json,json.encoder\ndef f(s): return json.dumps({'a':s},indent=1)",
        "old=json.encoder.JSONEncoder.iterencode\njson.encoder.JSONEncoder.iterencode=lambda self,o,_one_shot=False: iter(['P'])",
        'json.encoder.JSONEncoder.iterencode=old'),
    'beneath: string.Template over re': (
        "import string,collections\ndef f(s): return string.capwords('a b')+str(s)",
        "old=string.capwords.__code__\nstring.capwords.__code__=(lambda s,sep=None:'P').__code__",
        'string.capwords.__code__=old'),
    'beneath: fnmatch over re': (
        "import fnmatch,re\ndef f(s): fnmatch._compile_pattern.cache_clear(); return (fnmatch.fnmatchcase('a','a'),s)",
        "import fnmatch\nold=fnmatch.translate\nfnmatch.translate=lambda p:'z'",
        'fnmatch.translate=old'),
    'beneath: copy over copyreg': (
        'import copy\nclass A:\n  def __reduce_ex__(self,p): return (int,(K,))\nK=1\ndef f(s): return copy.copy(A())*10+s',
        'K=2'),
    'beneath: calendar over datetime': (
        'import calendar\ndef f(s): return calendar.weekday(2020,1,s+1)',
        'import datetime\nold=calendar.datetime\nclass D:\n  MINYEAR=1;MAXYEAR=9999\n  class date:\n    def __init__(self,*a): pass\n    def weekday(self): return 6\ncalendar.datetime=D',
        'calendar.datetime=old'),
    'beneath: html over re': (
        "import html\ndef f(s): return html.unescape('&lt;')+str(s)",
        "old=html._replace_charref\nhtml._replace_charref=lambda m:'P'",
        'html._replace_charref=old'),
    'beneath: reprlib over itertools': (
        'import reprlib\ndef f(s): return reprlib.repr(list(range(50)))+str(s)',
        'import itertools\nold=reprlib.islice\nreprlib.islice=lambda x,n: iter([1])',
        'reprlib.islice=old'),
    'beneath: pprint over re': (
        "import pprint\ndef f(s): return pprint.pformat({'a':s})",
        "old=pprint.PrettyPrinter.pformat\npprint.PrettyPrinter.pformat=lambda self,o:'P'",
        'pprint.PrettyPrinter.pformat=old'),
    'beneath: ast.literal_eval parts': (
        "import ast\ndef f(s): return ast.literal_eval('[1]')[0]*10+s",
        "old=ast.parse\nclass _:\n  pass\nast.parse=lambda *a,**k: ast.Expression(ast.Constant(7)) if False else old('[7]',mode='eval')",
        'ast.parse=old'),
    'beneath: dataclasses.replace': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  x:int\np=P(1)\ndef f(s): return dataclasses.replace(p,x=s).x',
        "old=dataclasses.fields\nimport dataclasses as D\nold=D.replace.__code__\nD.replace.__code__=(lambda obj,/,**c: P0).__code__ if False else old\nP.__init__=lambda self,x: object.__setattr__(self,'x',x+5)"),
    'beneath: numpy mean internals': (
        'import numpy as np\na=np.array([1.,3.])\ndef f(s): return float(np.mean(a))*10+s',
        'import numpy._core.fromnumeric as F\nold=F._methods\nclass M:\n  @staticmethod\n  def _mean(*a,**k): return 5.\nF._methods=M',
        'F._methods=old'),
    'beneath: numpy linalg norm internals': (
        'import numpy as np\na=np.array([3.,4.])\ndef f(s): return float(np.linalg.norm(a))*10+s',
        'import numpy.linalg._linalg as L\nold=L.sqrt\nL.sqrt=lambda x: 9.',
        'L.sqrt=old'),
    'beneath: numpy average': (
        'import numpy as np\na=np.array([3.,4.])\ndef f(s): return float(np.average(a))*10+s',
        "import numpy.lib._function_base_impl as L\nold=L.np\nclass N:\n  def __getattr__(self,n): return getattr(old,n) if n!='asanyarray' else (lambda x: old.asanyarray([9.]))\nL.np=N()",
        'L.np=old'),
    'beneath: numpy median internals': (
        'import numpy as np\na=np.array([3.,4.])\ndef f(s): return float(np.median(a))*10+s',
        'import numpy.lib._function_base_impl as L\nold=L._ureduce\nL._ureduce=lambda *a,**k: 9.',
        'L._ureduce=old'),
    'beneath: torch functional': (
        'import torch\ndef f(s): return float(torch.nn.functional.relu(torch.tensor(float(s))))',
        "import torch.nn.functional as F\nold=F.torch\nclass N:\n  def __getattr__(self,n): return (lambda *a,**k: 9.) if n in('relu','has_torch_function_unary') else getattr(old,n)\nF.torch=N()",
        'F.torch=old'),
    'beneath: torch tensor method': (
        'import torch\ndef f(s): return float(torch.tensor([3.,4.]).norm())*10+s',
        'old=torch.norm\ntorch.norm=lambda *a,**k: torch.tensor(9.)',
        'torch.norm=old'),
    'beneath: torch.norm internals': (
        'import torch\ndef f(s): return float(torch.norm(torch.tensor([3.,4.])))*10+s',
        'import torch.functional as F\nold=torch.linalg.vector_norm\ntorch.linalg.vector_norm=lambda *a,**k: torch.tensor(9.)',
        'torch.linalg.vector_norm=old'),
    'beneath: builtins patched for a library': (
        'import statistics\ndef f(s): return statistics.median([3,1,2])*10+s',
        'import builtins\nold=builtins.sorted\nbuiltins.sorted=lambda x,**k: list(x)',
        'builtins.sorted=old'),
    'beneath: datetime strptime via _strptime': (
        "import datetime\ndef f(s): return datetime.datetime.strptime('2020','%Y').year*10+s",
        'import _strptime\nold=_strptime._strptime_datetime\n_strptime._strptime_datetime=lambda c,*a: c(1999,1,1)',
        '_strptime._strptime_datetime=old'),
    'beneath: uuid5 over hashlib': (
        "import uuid\ndef f(s): return str(uuid.uuid5(uuid.NAMESPACE_DNS,'a'))+str(s)",
        "import hashlib\nold=hashlib.sha1\nhashlib.sha1=lambda *a,**k: hashlib.md5(b'x'*20) if False else type('H',(),{'digest':lambda self:b'0'*20})()",
        'hashlib.sha1=old'),
    'beneath: hmac over hashlib': (
        "import hmac\ndef f(s): return hmac.new(b'k',b'm','sha1').hexdigest()+str(s)",
        "old=hmac.HMAC.hexdigest\nhmac.HMAC.hexdigest=lambda self:'P'",
        'hmac.HMAC.hexdigest=old'),
    'beneath: collections.Counter most_common over heapq': (
        "import collections\ndef f(s): return collections.Counter('aab').most_common(1)[0][1]*10+s",
        "import heapq\nold=heapq.nlargest\nheapq.nlargest=lambda n,it,key=None: [('z',9)]",
        'heapq.nlargest=old'),
    'beneath: ipaddress over functools': (
        "import ipaddress\ndef f(s): return ipaddress.ip_address('10.0.0.%d'%s).is_private",
        'old=ipaddress.IPv4Address.is_private\nipaddress.IPv4Address.is_private=property(lambda self: False)',
        'ipaddress.IPv4Address.is_private=old'),
    'beneath: bisect key': (
        'import bisect\nT=[1,2,3]\ndef f(s): return bisect.bisect(T,s)',
        'T.insert(0,0)'),
    'beneath: operator python': (
        'import operator\nx=[1,2,3]\ndef f(s): return operator.length_hint(x)*10+s',
        'x.append(1)'),
    'beneath: functools.total_ordering': (
        'import functools\n@functools.total_ordering\nclass A:\n  k=1\n  def __init__(self,v): self.v=v\n  def __eq__(self,o): return self.v==o.v\n  def __lt__(self,o): return self.v*A.k<o.v\ndef f(s): return A(s)>=A(1)',
        'A.k=-1'),
    'beneath: collections.OrderedDict move': (
        'import collections\nd=collections.OrderedDict([(0,1),(1,2)])\ndef f(s): return list(d)[s]',
        'd.move_to_end(0)'),
}  # fmt: skip


def layouts_for(name, tricks):
    """Shared symbols, and one of the others."""
    return "shared", LAYOUTS[1 + list(tricks).index(name) % (len(LAYOUTS) - 1)]


@pytest.mark.parametrize("name", EQUAL)
def test_what_is_equal_but_differs_is_noticed(name):
    for layout in layouts_for(name, EQUAL):
        Trick(*EQUAL[name]).check(layout)


@pytest.mark.parametrize("name", BENEATH)
def test_a_patch_beneath_what_is_called_is_noticed(name):
    for layout in layouts_for(name, BENEATH):
        Trick(*BENEATH[name]).check(layout)
