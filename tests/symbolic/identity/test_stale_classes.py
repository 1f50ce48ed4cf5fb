# ruff: noqa: E501 (programs in strings)
"""Changes of classes, of their objects and of symbols, each in one of the layouts."""

from __future__ import annotations

import pytest

from tricks import LAYOUTS, Trick

TRICKS = {
    'lock state': (
        'import threading\nl=threading.Lock()\ndef f(s): return (l.locked(),s)',
        'l.acquire()'),
    'event': (
        'import threading\ne=threading.Event()\ndef f(s): return (e.is_set(),s)',
        'e.set()'),
    'queue size': (
        'import queue\nq=queue.Queue()\ndef f(s): return (q.qsize(),s)',
        'q.put(1)'),
    'closure of lambda default list of lambdas': (
        'hs=[lambda: 1]\ndef f(s,hs=hs): return s*10+hs[0]()',
        'hs[0]=lambda: 2'),
    'closure deleted cell': (
        'def make():\n  k=1\n  def f(s):\n    try: return s*10+k\n    except NameError: return s\n  def d():\n    nonlocal k\n    del k\n  return f,d\nf,d=make()',
        'd()'),
    'closure over generator function': (
        'k=[1]\ndef make():\n  def g():\n    yield k[0]\n  def f(s): return s*10+sum(g())\n  return f\nf=make()',
        'k[0]=5'),
    'closure over self method': (
        'class A:\n  def __init__(self): self.k=1\n  def make(self): return lambda s: s*10+self.k\na=A();f=a.make()',
        'a.k=2'),
    'closure over class cell __class__': (
        'class B:\n  k=1\n  def m(self): return self.k\nclass A(B):\n  def m(self): return super().m()\na=A()\ndef f(s): return s*10+a.m()',
        'B.m=lambda self: 7'),
    'super two deep': (
        'class C:\n  def m(self): return K[0]\nclass B(C):\n  def m(self): return super().m()\nclass A(B):\n  def m(self): return super().m()\nK=[1]\na=A()\ndef f(s): return s*10+a.m()',
        'K[0]=2'),
    'super property': (
        'class B:\n  @property\n  def m(self): return K[0]\nclass A(B):\n  @property\n  def m(self): return super().m+1\nK=[1]\na=A()\ndef f(s): return s*10+a.m',
        'K[0]=2'),
    'super classmethod': (
        'class B:\n  k=1\n  @classmethod\n  def m(cls): return cls.k\nclass A(B):\n  @classmethod\n  def m(cls): return super().m()\ndef f(s): return s*10+A.m()',
        'B.k=2'),
    'super explicit': (
        'class B:\n  def m(self): return K[0]\nclass A(B):\n  def m(self): return super(A,self).m()\nK=[1]\na=A()\ndef f(s): return s*10+a.m()',
        'K[0]=2'),
    'super rebound class': (
        'class B:\n  def m(self): return 1\nclass C:\n  def m(self): return 2\nclass A(B):\n  def m(self): return super().m()\na=A()\ndef f(s): return s*10+a.m()',
        'class B2(C): pass\nA.__bases__=(B2,)'),
    'annotations via __annotations__ of class': (
        'class A:\n  x:int\ndef f(s): return (len(A.__annotations__),s)',
        "A.__annotations__['y']=int"),
    'get_type_hints': (
        'import typing\nclass A:\n  x:int\ndef f(s): return (len(typing.get_type_hints(A)),s)',
        "A.__annotations__['y']=int"),
    'dataclasses.fields': (
        'import dataclasses\n@dataclasses.dataclass\nclass P:\n  x:int=1\ndef f(s): return (len(dataclasses.fields(P)),s)',
        "P.__dataclass_fields__['y']=P.__dataclass_fields__['x']"),
    'dataclass field default changed': (
        'import dataclasses\n@dataclasses.dataclass\nclass P:\n  x:int=1\ndef f(s): return (dataclasses.fields(P)[0].default,s)',
        "P.__dataclass_fields__['x'].default=9"),
    'dataclass init defaults': (
        'import dataclasses\n@dataclasses.dataclass\nclass P:\n  x:int=1\ndef f(s): return P().x*10+s',
        'P.__init__.__defaults__=(5,)'),
    'dataclass kw default': (
        'import dataclasses\n@dataclasses.dataclass(kw_only=True)\nclass P:\n  x:int=1\ndef f(s): return P().x*10+s',
        "P.__init__.__kwdefaults__['x']=5"),
    'dataclass class attr default': (
        'import dataclasses\n@dataclasses.dataclass\nclass P:\n  x:int=1\np=P()\ndel p.x\ndef f(s): return p.x*10+s',
        'P.x=5'),
    'dataclass order by table': (
        'import dataclasses\nW={0:1,1:2}\n@dataclasses.dataclass(frozen=True)\nclass P:\n  x:int\n  def __lt__(self,o): return W[self.x]<W[o.x]\nsymbols=[P(0),P(1)]\ndef f(s): return s<P(1)',
        'W[0]=9'),
    'frozen forced symbol': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  x:int\n  y:tuple=()\nsymbols=[P(0),P(1)]\ndef f(s): return (s.x,s.y)',
        "object.__setattr__(symbols[0],'y',(5,))"),
    'frozen forced to list': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True,eq=True)\nclass P:\n  x:int\n  l:object=None\n  def __hash__(self): return self.x\nsymbols=[P(0,[1]),P(1,[1])]\ndef f(s): return s.x*10+s.l[0]',
        'symbols[0].l[0]=7'),
    'slots dataclass symbol forced': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True,slots=True)\nclass P:\n  x:int\n  y:int=0\nsymbols=[P(0),P(1)]\ndef f(s): return s.x*10+s.y',
        "object.__setattr__(symbols[0],'y',5)"),
    'namedtuple method replaced': (
        'import typing\nclass P(typing.NamedTuple):\n  x:int\n  def m(self): return self.x\nsymbols=[P(0),P(1)]\ndef f(s): return s.m()',
        'P.m=lambda self: self.x+5'),
    'namedtuple _replace patched': (
        "import collections\nP=collections.namedtuple('P','x')\nsymbols=[P(0),P(1)]\ndef f(s): return s._replace(x=9)",
        "P._replace=lambda self,**k: 'Q'"),
    'namedtuple field replaced': (
        "import collections\nP=collections.namedtuple('P','x')\nsymbols=[P(0),P(1)]\ndef f(s): return s.x",
        'P.x=property(lambda self: 7+tuple.__getitem__(self,0))'),
    'namedtuple _fields': (
        "import collections\nP=collections.namedtuple('P','x')\nsymbols=[P(0),P(1)]\ndef f(s): return (s._fields,s[0])",
        "P._fields=('q',)"),
    'namedtuple _asdict defaults': (
        "import collections\nP=collections.namedtuple('P','x y',defaults=[1])\ndef f(s): return P(s)",
        'P.__new__.__defaults__=(7,)'),
    'namedtuple eq patched': (
        "import collections\nP=collections.namedtuple('P','x')\ndef f(s): return (P(s)==P(1),s)",
        'P.__eq__=lambda a,b: True'),
    'enum member attribute added': (
        'import enum\nclass C(enum.Enum):\n  A=0\n  B=1\nC.A.w=1;C.B.w=2\nsymbols=list(C)\ndef f(s): return s.w',
        'C.A.w=9'),
    'enum extended': (
        'import enum\nclass C(enum.Enum):\n  A=0\ndef f(s): return (len(C),s)',
        "m=object.__new__(C);m._name_='B';m._value_=1;C._member_map_['B']=m;C._member_names_.append('B')"),
    'enum str': (
        'import enum\nclass C(enum.Enum):\n  A=0\n  B=1\nsymbols=list(C)\ndef f(s): return str(s)',
        "C.__str__=lambda self:'Q'+self.name"),
    'intenum arithmetic': (
        'import enum\nclass C(enum.IntEnum):\n  A=0\n  B=1\nsymbols=list(C)\ndef f(s): return s+1',
        'C.__add__=lambda a,b: int(a)*10+b+5'),
    'strenum': (
        "import enum\nclass C(enum.StrEnum):\n  A='a'\n  B='b'\nsymbols=list(C)\ndef f(s): return s.upper()",
        "C.upper=lambda self:'Q'+self.value"),
    'enum property via DynamicClassAttribute': (
        'import enum,types\nk=[1]\nclass C(enum.Enum):\n  A=0\n  B=1\n  @types.DynamicClassAttribute\n  def w(self): return k[0]\nsymbols=list(C)\ndef f(s): return s.w*10+s.value',
        'k[0]=2'),
    'enum.property': (
        'import enum\nk=[1]\nclass C(enum.Enum):\n  A=0\n  B=1\n  @enum.property\n  def w(self): return k[0]\nsymbols=list(C)\ndef f(s): return s.w*10+s.value',
        'k[0]=2'),
    'flag boundary': (
        'import enum\nclass C(enum.Flag):\n  A=1\n  B=2\ndef f(s): return (str(C(3)),s)',
        "C.__str__=lambda self:'Q'"),
    'enum nonmember table': (
        "import enum\nclass C(enum.Enum):\n  _ignore_=['t']\n  A=0\n  B=1\nC.t={C.A:1,C.B:2}\nsymbols=list(C)\ndef f(s): return C.t[s]",
        'C.t[C.A]=5'),
    '__class__ assigned': (
        'class A:\n  def m(self): return 1\nclass B:\n  def m(self): return 2\na=A()\ndef f(s): return s*10+a.m()',
        'a.__class__=B'),
    '__class__ of module': (
        "import types\nm=types.ModuleType('m');m.k=1\ndef f(s): return s*10+m.k",
        'class M(types.ModuleType):\n  @property\n  def k(self): return 2\nm.__class__=M'),
    '__slots__ plus dict': (
        "class A:\n  __slots__=('k','__dict__')\na=A();a.k=1;a.j=1\ndef f(s): return s*10+a.k+a.j",
        'a.j=5'),
    '__dict__ replaced': (
        'class A: pass\na=A();a.k=1\ndef f(s): return s*10+a.k',
        "a.__dict__={'k':2}"),
    'class __dict__ via type()': (
        "A=type('A',(),{'k':1})\ndef f(s): return s*10+A.k",
        "type.__setattr__(A,'k',2)"),
    'descriptor on metaclass': (
        'class D:\n  def __get__(self,o,t=None): return K[0]\nclass M(type):\n  k=D()\nclass A(metaclass=M): pass\nK=[1]\ndef f(s): return s*10+A.k',
        'K[0]=2'),
    'metaclass property': (
        'class M(type):\n  @property\n  def k(cls): return K[0]\nclass A(metaclass=M): pass\nK=[1]\ndef f(s): return s*10+A.k',
        'K[0]=2'),
    'metaclass __len__': (
        'class M(type):\n  def __len__(cls): return K[0]\nclass A(metaclass=M): pass\nK=[1]\ndef f(s): return s*10+len(A)',
        'K[0]=2'),
    'metaclass __contains__': (
        'class M(type):\n  def __contains__(cls,x): return x in K\nclass A(metaclass=M): pass\nK=[1]\ndef f(s): return (s in A,s)',
        'K.append(0)'),
    'metaclass __eq__': (
        'class M(type):\n  def __eq__(cls,o): return K[0]\n  __hash__=type.__hash__\nclass A(metaclass=M): pass\nK=[True]\ndef f(s): return (A==int,s)',
        'K[0]=False'),
    'metaclass changed': (
        'class M(type):\n  def __call__(cls,s): return s*10+1\nclass N(type):\n  def __call__(cls,s): return s*10+2\nclass A(metaclass=M): pass\ndef f(s): return A(s)',
        'A.__class__=N'),
    '__init_subclass__ effect': (
        'class B:\n  k=1\nclass A(B): pass\ndef f(s): return s*10+A.k',
        'A.k=5'),
    '__set_name__ name': (
        'class D:\n  def __init__(self): self.v=1\n  def __get__(self,o,t=None): return self.v\nclass A:\n  d=D()\na=A()\ndef f(s): return s*10+a.d',
        "A.__dict__['d'].v=2"),
    'property fget replaced': (
        'def one(self): return 1\nclass A:\n  p=property(one)\na=A()\ndef f(s): return s*10+a.p',
        'one.__code__=(lambda self: 2).__code__'),
    'property subclass': (
        'class P(property):\n  def __get__(self,o,t=None): return K[0]\nclass A:\n  p=P(lambda self: 1)\nK=[1]\na=A()\ndef f(s): return s*10+a.p',
        'K[0]=2'),
    'cached_property func': (
        'import functools\nK=[1]\nclass A:\n  @functools.cached_property\n  def p(self): return K[0]\na=A()\ndef f(s): return s*10+A().p',
        'K[0]=2'),
    'cached_property stale kept': (
        'import functools\nK=[1]\nclass A:\n  @functools.cached_property\n  def p(self): return K[0]\na=A();a.p\ndef f(s): return s*10+a.p',
        'del a.p;K[0]=4'),
    'staticmethod attr': (
        'class A:\n  @staticmethod\n  def m(s): return s*10+K\n  \nK=1\ndef f(s): return A.m(s)',
        'K=2'),
    'staticmethod object called': (
        '@staticmethod\ndef g(s): return s*10+K\nK=1\ndef f(s): return g(s)',
        'K=2'),
    'classmethod over property': (
        'class A:\n  k=1\n  @classmethod\n  def m(cls): return cls.k\nclass B(A): pass\nb=B()\ndef f(s): return s*10+b.m()',
        'B.k=3'),
    '__call__ on instance attr': (
        "class A:\n  def __call__(self,s): return s*10+self.t['k']\na=A();a.t={'k':1}\nf=a",
        "a.t['k']=2"),
    '__getattr__ with self dict': (
        "class A:\n  def __init__(self): self.d={'k':1}\n  def __getattr__(self,n): return self.d[n]\na=A()\ndef f(s): return s*10+a.k",
        "a.d['k']=2"),
    '__getitem__ object': (
        'class A:\n  def __getitem__(self,i): return K[i]\nK=[1,2]\na=A()\ndef f(s): return a[s]',
        'K[0]=9'),
    '__contains__ object': (
        'class A:\n  def __contains__(self,i): return i in K\nK=[1,2]\na=A()\ndef f(s): return (s in a,s)',
        'K.append(0)'),
    '__bool__ object': (
        'class A:\n  def __bool__(self): return K[0]\nK=[True]\na=A()\ndef f(s): return (1 if a else 0)*10+s',
        'K[0]=False'),
    '__enter__ object': (
        'class A:\n  def __enter__(self): return K[0]\n  def __exit__(self,*a): pass\nK=[1]\na=A()\ndef f(s):\n  with a as k: return k*10+s',
        'K[0]=2'),
    '__matmul__ object': (
        'class A:\n  def __matmul__(self,o): return o*10+K[0]\nK=[1]\na=A()\ndef f(s): return a@s',
        'K[0]=2'),
    '__format__ of object': (
        "class A:\n  def __format__(self,spec): return str(K[0])\nK=[1]\na=A()\ndef f(s): return f'{a}{s}'",
        'K[0]=2'),
    '__repr__ of object': (
        "class A:\n  def __repr__(self): return str(K[0])\nK=[1]\na=A()\ndef f(s): return '%r %d'%(a,s)",
        'K[0]=2'),
    '__missing__ in class': (
        'class D(dict):\n  def __missing__(self,k): return K[0]\nK=[1]\ndef f(s): return D()[s]*10+s',
        'K[0]=2'),
    '__instancecheck__ swapped': (
        'class M(type): pass\nclass A(metaclass=M): pass\ndef f(s): return (isinstance(s,A),s)',
        'M.__instancecheck__=lambda c,o: True'),
    '__hash__ of symbols by state': (
        'class A:\n  def __init__(self,x): self.x=x\n  def __hash__(self): return hash(self.x)\n  def __eq__(self,o): return self.x==o.x\nsymbols=[A(0),A(1)]\ndef f(s): return s.x*10',
        'symbols[0].x=5'),
    'operator on symbol': (
        'class A:\n  def __init__(self,x): self.x=x\n  def __add__(self,o): return self.x+K[0]+o\n  def __hash__(self): return hash(self.x)\n  def __eq__(self,o): return self.x==o.x\nK=[1]\nsymbols=[A(0),A(1)]\ndef f(s): return s+1',
        'K[0]=3'),
    'symbol operator in frozen': (
        'import dataclasses\nK=[1]\n@dataclasses.dataclass(frozen=True)\nclass A:\n  x:int\n  def __add__(self,o): return self.x+K[0]+o\nsymbols=[A(0),A(1)]\ndef f(s): return s+1',
        'K[0]=3'),
    'symbol tuple of enum with state': (
        'import enum\nclass C(enum.Enum):\n  A=0\n  B=1\n  def w(self): return W[self.value]\nW=[1,2]\nsymbols=[(C.A,1),(C.B,1)]\ndef f(s): return s[0].w()',
        'W[0]=9'),
    'frozenset of symbols objects': (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass A:\n  x:int\n  def w(self): return W[self.x]\nW=[1,2]\nsymbols=[frozenset([A(0)]),frozenset([A(1)])]\ndef f(s): return sum(a.w() for a in s)',
        'W[0]=9'),
    'symbol is a function': (
        'k=1\ndef a(): return k\ndef b(): return 5\nsymbols=[a,b]\ndef f(s): return s()',
        'k=2'),
    'symbol is a class': (
        'class A:\n  k=1\nclass B:\n  k=2\nsymbols=[A,B]\ndef f(s): return s.k',
        'A.k=9'),
    'symbol is a partial': (
        'import functools\nl=[1]\ndef g(l): return l[0]\nsymbols=[functools.partial(g,l),functools.partial(g,[7])]\ndef f(s): return s()',
        'l[0]=3'),
    'symbol is a bound method': (
        'class A:\n  def __init__(self): self.k=1\n  def m(self): return self.k\na,b=A(),A();b.k=5\nsymbols=[a.m,b.m]\ndef f(s): return s()',
        'a.k=9'),
    'symbol is a module': (
        "import types\na=types.ModuleType('a');a.k=1;b=types.ModuleType('b');b.k=2\nsymbols=[a,b]\ndef f(s): return s.k",
        'a.k=9'),
    'symbol is a lambda with default': (
        'l=[1]\nsymbols=[lambda l=l:l[0],lambda:7]\ndef f(s): return s()',
        'l[0]=9'),
    'symbol is a string subclass': (
        "class S(str): pass\nsymbols=[S('a'),S('b')];symbols[0].k=1;symbols[1].k=2\ndef f(s): return s.k",
        'symbols[0].k=9'),
    'symbol is an int with patched class': (
        'class I(int):\n  def w(self): return int(self)\nsymbols=[I(0),I(1)]\ndef f(s): return s.w()',
        'I.w=lambda self: int(self)+5'),
    'symbol weakref': (
        'import weakref\nclass A: pass\na=A();b=A()\nsymbols=[weakref.ref(a),weakref.ref(b)]\ndef f(s): return s() is None',
        'del a'),
    'symbol Path': (
        "import pathlib,tempfile\nd=pathlib.Path(tempfile.mkdtemp())\nsymbols=[d/'a',d/'b']\ndef f(s): return s.exists()",
        "(d/'a').touch()"),
    'symbol type alias': (
        'import typing\nsymbols=[typing.List[int],typing.Dict[int,int]]\nK={0:1}\ndef f(s): return (len(s.__args__),K[0])',
        'K[0]=5'),
    'symbol complex in table': (
        'K={0:1,1:2}\nsymbols=[0,1]\ndef f(s): return complex(K[s],1)',
        'K[0]=9'),
}  # fmt: skip


@pytest.mark.parametrize("name", TRICKS)
def test_the_second_answer_is_right(name):
    Trick(*TRICKS[name]).check(LAYOUTS[list(TRICKS).index(name) % len(LAYOUTS)])
