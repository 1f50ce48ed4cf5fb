# ruff: noqa: E501 (programs in strings)
"""What classes, functions and values tell about themselves beyond their contents: never stale."""

from __future__ import annotations

import pytest

from tricks import LAYOUTS, Trick

CLASSES = {
    "dataclass __init__ default changed": (
        'import dataclasses\n@dataclasses.dataclass\nclass P:\n  n:int=1\ndef f(s): return (P().n,s)',
        'P.__init__.__defaults__=(2,)'),
    "dataclass __init__ replaced": (
        'import dataclasses\n@dataclasses.dataclass\nclass P:\n  n:int=1\ndef f(s): return (P().n,s)',
        'def i(self): self.n=2\nP.__init__=i'),
    "dataclass __eq__ replaced": (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  n:int=1\ndef f(s): return (P(1)==P(2),s)',
        'P.__eq__=lambda a,b: True'),
    "dataclass __eq__ of symbols replaced": (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  n:int=1\nsymbols=[P(1),P(2)]\ndef f(s): return (s==P(1),s.n)',
        'P.__eq__=lambda a,b: False'),
    "dataclass __hash__ read": (
        'import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n  n:int=1\ndef f(s): return (hash(P(1))==5,s)',
        'P.__hash__=lambda a: 5'),
    "class __match_args__": (
        "class P:\n  __match_args__=('a','b')\n  def __init__(self): self.a=1;self.b=2\ndef f(s):\n  match P():\n    case P(x): return (x,s)",
        "P.__match_args__=('b','a')"),
    "class __hash__": (
        'class P:\n  def __hash__(self): return 1\ndef f(s): return (hash(P()),s)',
        'P.__hash__=lambda self: 2'),
    "class __module__": (
        'class P: pass\ndef f(s): return (str(P),s)',
        "P.__module__='q'"),
    "class __qualname__ in repr": (
        'class P: pass\ndef f(s): return (repr(P),s)',
        "P.__qualname__='q'"),
    "class doc passed": (
        "class P: 'a'\ndef g(c): return c.__doc__\ndef f(s): return (g(P),s)",
        "P.__doc__='b'"),
    "function doc passed": (
        "def h(): 'a'\ndef g(c): return c.__doc__\ndef f(s): return (g(h),s)",
        "h.__doc__='b'"),
    "function name passed": (
        "def h(): 'a'\ndef g(c): return c.__name__\ndef f(s): return (g(h),s)",
        "h.__name__='b'"),
    "function repr": (
        "def h(): 'a'\ndef f(s): return (str(h)[:12],s)",
        "h.__qualname__='b'"),
    "function annotations passed": (
        "def h(x:int): 'a'\ndef g(c): return str(c.__annotations__)\ndef f(s): return (g(h),s)",
        "h.__annotations__['x']=str"),
    "typing get_type_hints": (
        "import typing\ndef h(x:int): 'a'\ndef f(s): return (str(typing.get_type_hints(h)),s)",
        "h.__annotations__['x']=str"),
    "super passed on": (
        'class B:\n  def m(self): return 1\nclass A(B):\n  def m(self): return self.q(super())\n  def q(self,p): return p.m()\na=A()\ndef f(s): return (a.m(),s)',
        'B.m=lambda self: 2'),
    "alias of a generic class": (
        "import typing\nX=typing.TypeVar('X')\nclass G(typing.Generic[X]):\n  def __init__(self): self.k=z\nz=1\nA=G[int]\ndef f(s): return (A().k,s)",
        'z=2'),
}  # fmt: skip
VALUES = {
    "deque maxlen": (
        'import collections\nc=collections.deque([1,2],maxlen=2)\ndef f(s):\n  d=c.copy();d.append(s);return len(d)*10+s',
        'c=collections.deque([1,2],maxlen=3)'),
    "context variable set to None": (
        "import contextvars\nv=contextvars.ContextVar('v')\ndef f(s): return (v.get(7),s)",
        'v.set(None)'),
    "flags of an array": (
        'import numpy as np\na=np.array([1,2])\ndef f(s): return (a.flags.writeable,s)',
        'a.flags.writeable=False'),
    "order of an array": (
        'import numpy as np\na=np.zeros((2,2))\ndef f(s): return (a.flags.c_contiguous,s)',
        'a=np.asfortranarray(np.zeros((2,2)))'),
    "torch backends flag": (
        'import torch\ndef f(s): return (torch.backends.cudnn.benchmark,s)',
        'torch.backends.cudnn.benchmark=True',
        'torch.backends.cudnn.benchmark=False'),
    "weak references as symbols": (
        'import weakref\nclass A:\n  def __init__(self,k): self.k=k\na,b=A(1),A(5)\nsymbols=[weakref.ref(a),weakref.ref(b)]\ndef f(s): return s().k',
        'a.k=2'),
    "context variables as symbols": (
        "import contextvars\na=contextvars.ContextVar('a',default=1);b=contextvars.ContextVar('b',default=5)\nsymbols=[a,b]\ndef f(s): return s.get()",
        'a.set(2)'),
    "class of a module": (
        "import types,sys\nm=types.ModuleType('m');m.k=1\ndef f(s): return (m.k,s)",
        'class MM(types.ModuleType):\n  @property\n  def k(self): return 9\nm.__class__=MM'),
    "time zone of a user": (
        "import datetime\nclass Z(datetime.tzinfo):\n  def utcoffset(self,d): return datetime.timedelta(hours=k)\n  def dst(self,d): return None\n  def tzname(self,d): return 'z'\nk=1\nd=datetime.datetime(2020,1,1,tzinfo=Z())\ndef f(s): return (d.isoformat(),s)",
        'k=2'),
    "time zone of a user, in symbols": (
        "import datetime\nclass Z(datetime.tzinfo):\n  def utcoffset(self,d): return datetime.timedelta(hours=k)\n  def dst(self,d): return None\n  def tzname(self,d): return 'z'\n  def __repr__(self): return 'Z'\nk=1\nsymbols=[datetime.datetime(2020,1,1,tzinfo=Z()),datetime.datetime(2021,1,1,tzinfo=Z())]\ndef f(s): return s.isoformat()",
        'k=2'),
    "which nan": (
        "l=[float('nan')]\nx=l[0]\ndef f(s): return (x in l,s)",
        "x=float('nan')"),
    "the same integer": (
        'a=1000\nb=a\ndef f(s): return (a is b,s)',
        "b=int('1000')"),
    "the same tuple": (
        'a=(1,[2])\nb=a\ndef f(s): return (a is b,s)',
        'b=(1,a[1])'),
    "the same string": (
        "a='x'*50\nb=a\ndef f(s): return (a is b,s)",
        "b=('x'*51)[1:]"),
    "contextvar default mutable": (
        "import contextvars\nl=[1]\nv=contextvars.ContextVar('v',default=l)\ndef f(s): return (v.get()[0],s)",
        'l[0]=2'),
    "the same float": (
        'A=1.5\nB=A\ndef f(s): return (A is not B,s)',
        "B=float('1.5')"),
    "the same default": (
        'def g(a=(1,2),b=None): return a is b\nT=(1,2)\ng.__defaults__=(T,T)\ndef f(s): return (g(),s)',
        'g.__defaults__=(T,tuple([1,2]))'),
}  # fmt: skip
TRICKS = CLASSES | VALUES


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", TRICKS)
def test_the_second_answer_is_right(name, layout):
    Trick(*TRICKS[name]).check(layout)
