# ruff: noqa: E501 (programs in strings)
"""Settings and patches of libraries, and files: a function that depends on them is never stale."""

from __future__ import annotations

import decimal

import pytest

from tricks import LAYOUTS, Trick

SETTINGS = {
    "print options of numpy": (
        'import numpy as np\na = np.array([1/3])\ndef f(s): return str(a) + str(s)',
        'np.set_printoptions(precision=2)',
        'np.set_printoptions(precision=8)'),
    "print options of numpy, a new array": (
        'import numpy as np\ndef f(s): return str(np.array([s/3]))',
        'np.set_printoptions(precision=2)',
        'np.set_printoptions(precision=8)'),
    "print options of numpy, formatted": (
        "import numpy as np\ndef f(s): return f'{np.arange(3)/3}{s}'",
        'np.set_printoptions(precision=2)',
        'np.set_printoptions(precision=8)'),
    "errors of numpy": (
        'import numpy as np\ndef f(s):\n  try: return float(np.float64(s) / np.float64(0)) if s else 0.\n  except FloatingPointError: return -1.',
        "np.seterr(all='raise')",
        "np.seterr(all='warn')"),
    "print options of torch": (
        'import torch\ndef f(s): return str(torch.tensor([s/3]))',
        'torch.set_printoptions(precision=2)',
        "torch.set_printoptions(profile='default')"),
    "default dtype": (
        'import torch\ndef f(s): return str(torch.tensor([s/3]).dtype)',
        'torch.set_default_dtype(torch.float64)',
        'torch.set_default_dtype(torch.float32)'),
    "default dtype, a number": (
        'import torch\ndef f(s): return torch.tensor([(s+1)/3]).item()',
        'torch.set_default_dtype(torch.float64)',
        'torch.set_default_dtype(torch.float32)'),
    "default device": (
        'import torch\ndef f(s): return str(torch.zeros(1).device)+str(s)',
        "torch.set_default_device('meta')",
        "torch.set_default_device(None)"),
    "gradients enabled": (
        'import torch\nw=torch.nn.Parameter(torch.ones(1))\ndef f(s): return (torch.ones(1, requires_grad=True)*s).requires_grad',
        'torch.set_grad_enabled(False)',
        'torch.set_grad_enabled(True)'),
    "precision of symbols": (
        'import decimal\nsymbols=[decimal.Decimal(1),decimal.Decimal(2)]\ndef f(s): return str(s/3)',
        'decimal.getcontext().prec=5',
        'decimal.getcontext().prec=28'),
    "precision of a constant": (
        'import decimal\nd=decimal.Decimal(1)\ndef f(s): return str(d/(s+3))',
        'decimal.getcontext().prec=5',
        'decimal.getcontext().prec=28'),
    "rounding": (
        "import decimal\nd=decimal.Decimal('2.5')\ndef f(s): return str(d.quantize(d.to_integral()*0+1))+str(round(d))",
        'decimal.getcontext().rounding=decimal.ROUND_UP',
        'decimal.getcontext().rounding=decimal.ROUND_HALF_EVEN'),
    "recursion limit": (
        'import sys\ndef deep(n): return 0 if n==0 else 1+deep(n-1)\ndef f(s):\n  try: return deep(600)+s\n  except RecursionError: return -1-s',
        'sys.setrecursionlimit(500)',
        'sys.setrecursionlimit(1000)'),
    "digits of integers": (
        'import sys\nn=10**5000\ndef f(s):\n  try: return len(str(n))+s\n  except ValueError: return -1-s',
        'sys.set_int_max_str_digits(0)',
        'sys.set_int_max_str_digits(4300)'),
    "registered for copying": (
        'import copy,copyreg\nclass A:\n  k=1\ndef g(a): return (int,(5,))\ndef f(s): return repr(type(copy.copy(A())))+str(s)',
        'copyreg.pickle(A,g)'),
    "time zone": (
        "import os,time,datetime\nos.environ['TZ']='UTC';time.tzset()\ndef f(s): return datetime.datetime.fromtimestamp(s*86400).hour+100*s",
        "os.environ['TZ']='Asia/Tokyo';time.tzset()",
        "os.environ['TZ']='UTC';time.tzset()"),
    "time zone of localtime": (
        "import os,time,datetime\nos.environ['TZ']='UTC';time.tzset()\ndef f(s): return time.localtime(s*86400).tm_hour+100*s",
        "os.environ['TZ']='Asia/Tokyo';time.tzset()",
        "os.environ['TZ']='UTC';time.tzset()"),
    "time zone of a constant": (
        "import os,time,datetime\nos.environ['TZ']='UTC';time.tzset()\nd=datetime.datetime(2020,1,1)\ndef f(s): return d.timestamp()+s",
        "os.environ['TZ']='Asia/Tokyo';time.tzset()",
        "os.environ['TZ']='UTC';time.tzset()"),
    "time zone of symbols": (
        "import os,time,datetime\nos.environ['TZ']='UTC';time.tzset()\nsymbols=[datetime.datetime(2020,1,1),datetime.datetime(2020,1,2)]\ndef f(s): return s.timestamp()",
        "os.environ['TZ']='Asia/Tokyo';time.tzset()",
        "os.environ['TZ']='UTC';time.tzset()"),
    "precision of mpmath": (
        'import mpmath\ndef f(s): return str(mpmath.mpf(s+1)/3)',
        'mpmath.mp.dps=5',
        'mpmath.mp.dps=15'),
    "decimal subclass precision": (
        'import decimal\nclass D(decimal.Decimal): pass\ndef f(s): return str(D(1)/D(3))+str(s)',
        'decimal.getcontext().prec=5',
        'decimal.getcontext().prec=28'),
    "decimal traps": (
        'import decimal\nd=decimal.Decimal(1)\nz=decimal.Decimal(0)\ndef f(s):\n  try: return str(d/z)+str(s)\n  except ArithmeticError: return s',
        'decimal.getcontext().traps[decimal.DivisionByZero]=False',
        'decimal.getcontext().traps[decimal.DivisionByZero]=True'),
    "localcontext": (
        'import decimal\nd=decimal.Decimal(1)\nold=decimal.getcontext()\ndef f(s): return str(d/(s+3))',
        'c=decimal.Context(prec=4);decimal.setcontext(c)',
        'decimal.setcontext(old)'),
    "from torch import": (
        'from torch import tensor\nimport torch\ndef f(s): return tensor([(s+1)/3]).item()',
        'torch.set_default_dtype(torch.float64)',
        'torch.set_default_dtype(torch.float32)'),
    "torch alias helper": (
        'import torch\nz=torch.zeros\ndef f(s): return str(z(1).dtype)+str(s)',
        'torch.set_default_dtype(torch.float64)',
        'torch.set_default_dtype(torch.float32)'),
    "torch.arange in helper": (
        'import torch\ndef g(n): return torch.arange(0.,n).dtype\ndef f(s): return str(g(s+1))+str(s)',
        'torch.set_default_dtype(torch.float64)',
        'torch.set_default_dtype(torch.float32)'),
    "torch Tensor class": (
        'import torch\ndef f(s): return str(torch.Tensor([s]).dtype)+str(s)',
        'torch.set_default_dtype(torch.float64)',
        'torch.set_default_dtype(torch.float32)'),
    "inference mode": (
        'import torch\ndef f(s): return (torch.ones(1,requires_grad=True)*s).requires_grad',
        'g=torch.inference_mode();g.__enter__()',
        'g.__exit__(None,None,None)'),
    "autocast": (
        'import torch\na=[[1.]]\ndef f(s): return str((torch.tensor(a)@torch.tensor(a)).dtype)+str(s)',
        "c=torch.autocast('cpu',torch.bfloat16);c.__enter__()",
        'c.__exit__(None,None,None)'),
    "old print options": (
        'import numpy as np\ndef f(s): return repr(np.float64(s))',
        "np.set_printoptions(legacy='1.13')",
        'np.set_printoptions(legacy=False)'),
    "threshold of print options": (
        'import numpy as np\nn=10\ndef f(s): return len(str(np.arange(n)))*10+s',
        'np.set_printoptions(threshold=5)',
        'np.set_printoptions(threshold=1000)'),
    "errors of numpy in a block": (
        'import numpy as np\nx=np.array([1.,0.])\ndef f(s):\n  try: return str(1/x)+str(s)\n  except FloatingPointError: return s',
        "c=np.errstate(all='raise');c.__enter__()",
        'c.__exit__(None,None,None)'),
    "formatter of print options": (
        'import numpy as np\ndef f(s): return str(np.arange(2.)+s)',
        "np.set_printoptions(formatter={'float': lambda x: 'q'})",
        'np.set_printoptions(formatter=None)'),
    "time zone of strftime": (
        "import time,os\nos.environ['TZ']='UTC';time.tzset()\ndef f(s): return time.strftime('%H %Z',time.localtime(s*3600))",
        "os.environ['TZ']='Asia/Tokyo';time.tzset()",
        "os.environ['TZ']='UTC';time.tzset()"),
    "local time zone": (
        "import datetime,os,time\nos.environ['TZ']='UTC';time.tzset()\nd=datetime.datetime(2020,1,1,tzinfo=datetime.timezone.utc)\ndef f(s): return str(d.astimezone())+str(s)",
        "os.environ['TZ']='Asia/Tokyo';time.tzset()",
        "os.environ['TZ']='UTC';time.tzset()"),
    "copy.deepcopy dispatch": (
        'import copy\nclass A: pass\na=[1]\ndef f(s): return (str(copy.deepcopy(a)),s)\nold=copy._deepcopy_dispatch[list]',
        "copy._deepcopy_dispatch[list]=lambda x,m: 'q'",
        'copy._deepcopy_dispatch[list]=old'),
}  # fmt: skip
PATCHES = {
    "patched Fraction method": (
        'from fractions import Fraction\nold=Fraction.__add__\ndef f(s): return Fraction(s,3)+Fraction(1,3)',
        'Fraction.__add__=lambda a,b: 7',
        'Fraction.__add__=old'),
    "patched Fraction symbols": (
        'from fractions import Fraction\nold=Fraction.__add__\nsymbols=[Fraction(1,3),Fraction(2,3)]\ndef f(s): return s+s',
        'Fraction.__add__=lambda a,b: 7',
        'Fraction.__add__=old'),
    "patched Fraction closure": (
        'from fractions import Fraction\nold=Fraction.__add__\nh=Fraction(1,2)\ndef f(s): return h+s',
        'Fraction.__add__=lambda a,b: 7',
        'Fraction.__add__=old'),
    "patched Fraction, reads state": (
        'from fractions import Fraction\nold=Fraction.__add__\nk=1\nFraction.__add__=lambda a,b: k\nh=Fraction(1,2)\ndef f(s): return (h+s)*10+s',
        'k=2',
        'Fraction.__add__=old'),
    "patched Counter": (
        'import collections\nold=collections.Counter.most_common\ndef f(s): return collections.Counter([s]).most_common(1)[0]',
        'collections.Counter.most_common=lambda self,n: [(9,9)]',
        'collections.Counter.most_common=old'),
    "patched Counter via instance": (
        'import collections\nc=collections.Counter([1])\nold=collections.Counter.most_common\ndef f(s): return c.most_common(1)[0]+(s,)',
        'collections.Counter.most_common=lambda self,n: [(9,9)]',
        'collections.Counter.most_common=old'),
    "patched JSONEncoder": (
        'import json\nold=json.JSONEncoder.default\nclass A: pass\ndef f(s):\n  try: return json.dumps([s,{1}])\n  except TypeError: return s',
        "json.JSONEncoder.default=lambda self,o: 'x'",
        'json.JSONEncoder.default=old'),
    "patched class under another function": (
        'import statistics,fractions\nold=fractions.Fraction.__truediv__\ndef f(s): return statistics.mean([fractions.Fraction(s),1])',
        'fractions.Fraction.__truediv__=lambda a,b: fractions.Fraction(77)',
        'fractions.Fraction.__truediv__=old'),
    "patched TextWrapper": (
        "import textwrap\nold=textwrap.TextWrapper.wrap\ndef f(s): return textwrap.fill('a b c %d'%s, 3)",
        "textwrap.TextWrapper.wrap=lambda self,x: ['q']",
        'textwrap.TextWrapper.wrap=old'),
    "patched enum str": (
        'import enum\nclass E(enum.Enum):\n  A=1\nold=enum.Enum.__str__\ndef f(s): return str(E.A)+str(s)',
        "enum.Enum.__str__=lambda self: 'x'",
        'enum.Enum.__str__=old'),
    "patched function code": (
        'import bisect,heapq\nold=heapq.nsmallest.__code__\ndef f(s): return tuple(heapq.nsmallest(2,[s,3,1]))',
        'heapq.nsmallest.__code__=(lambda n,it,key=None: [0]).__code__',
        'heapq.nsmallest.__code__=old'),
    "patched function defaults": (
        "import json\nold=json.dumps.__kwdefaults__\ndef f(s): return json.dumps({'b':s,'a':1})",
        'json.dumps.__kwdefaults__=dict(old,sort_keys=True)',
        'json.dumps.__kwdefaults__=old'),
    "patched re": (
        "import re\nold=re._compile\ndef f(s): return re.sub('a','b','a%d'%s)",
        "re._compile=lambda p,fl: re.compile_('x')\nre.compile_=lambda p: old(p,0)",
        're._compile=old'),
    "patched class of networkx": (
        'import networkx as nx\nold=nx.Graph.number_of_nodes\ndef f(s): return nx.path_graph(s+2).number_of_nodes()',
        'nx.Graph.number_of_nodes=lambda self: 77',
        'nx.Graph.number_of_nodes=old'),
    "number of the machine": (
        'import uuid\nold=uuid._node\ndef f(s): return (uuid.getnode(),s)',
        'uuid._node=5',
        'uuid._node=old'),
    "UserDict patched method": (
        "import collections\nu=collections.UserDict(a=1)\nold=collections.UserDict.__getitem__\ndef f(s): return (u['a'],s)",
        'collections.UserDict.__getitem__=lambda self,k: 99',
        'collections.UserDict.__getitem__=old'),
    "patched ChainMap": (
        "import collections\nu=collections.ChainMap({'a':1})\nold=collections.ChainMap.__getitem__\ndef f(s): return (u['a'],s)",
        'collections.ChainMap.__getitem__=lambda self,k: 99',
        'collections.ChainMap.__getitem__=old'),
    "patched Counter, missing": (
        "import collections\nc=collections.Counter(a=1)\nold=collections.Counter.__missing__\ndef f(s): return (c['zz'],s)",
        'collections.Counter.__missing__=lambda self,k: 5',
        'collections.Counter.__missing__=old'),
    "patched property of UUID": (
        'import uuid\nu=uuid.UUID(int=1)\nold=uuid.UUID.hex\ndef f(s): return (u.hex,s)',
        "uuid.UUID.hex=property(lambda self: 'q')",
        'uuid.UUID.hex=old'),
    "patched property of paths": (
        "import pathlib\nsymbols=[pathlib.PurePath('a'),pathlib.PurePath('b')]\nold=pathlib.PurePath.name\ndef f(s): return s.name",
        "pathlib.PurePath.name=property(lambda self: 'q')",
        'pathlib.PurePath.name=old'),
    "collections.abc mixin patched": (
        'import collections.abc\nclass Q(collections.abc.Sequence):\n  def __len__(self): return 2\n  def __getitem__(self,i): return [1,2][i]\nold=collections.abc.Sequence.index\nq=Q()\ndef f(s): return (Q().index(2),s)',
        'collections.abc.Sequence.index=lambda self,x: 99',
        'collections.abc.Sequence.index=old'),
    "user subclass of lib class with patched lib base": (
        "import string\nold=string.Formatter.get_value\nclass F(string.Formatter): pass\ndef f(s): return F().format('{0}',s)",
        "string.Formatter.get_value=lambda self,*a: 'q'",
        'string.Formatter.get_value=old'),
    "patched enum, symbols": (
        'import enum\nclass E(enum.Enum):\n  A=1\n  B=2\nsymbols=list(E)\nold=enum.Enum.__str__\ndef f(s): return str(s)',
        "enum.Enum.__str__=lambda self: 'x'",
        'enum.Enum.__str__=old'),
    "patched operator of symbols": (
        'from fractions import Fraction\nold=Fraction.__mul__\nsymbols=[Fraction(1,3),Fraction(1,2)]\ndef f(s): return s*2',
        'Fraction.__mul__=lambda a,b: 7',
        'Fraction.__mul__=old'),
    "patched class inside of symbols": (
        'from fractions import Fraction\nold=Fraction.__mul__\nsymbols=[(Fraction(1,3),1),(Fraction(1,2),2)]\ndef f(s): return s[0]*2',
        'Fraction.__mul__=lambda a,b: 7',
        'Fraction.__mul__=old'),
}  # fmt: skip
FILES = {
    "file of a symbol": (
        "import pathlib\np=pathlib.Path('trick.txt');p.write_text('1')\nsymbols=[p,pathlib.Path('other')]\ndef f(s): return s.read_text() if s.name=='trick.txt' else ''",
        "p.write_text('2')"),
    "file of a symbol, whether it exists": (
        "import pathlib\np=pathlib.Path('trick2.txt')\nsymbols=[p,pathlib.Path('other')]\nif p.exists(): p.unlink()\ndef f(s): return s.exists(), s.name",
        "p.write_text('2')",
        'p.unlink()'),
    "np.load": (
        "import numpy as np\nnp.save('a.npy',np.array([1]))\ndef f(s): return (int(np.load('a.npy')[0]),s)",
        "np.save('a.npy',np.array([2]))"),
    "np.loadtxt": (
        "import numpy as np\nh=open('a.txt','w');h.write('1');h.close()\ndef f(s): return (float(np.loadtxt('a.txt')),s)",
        "h=open('a.txt','w');h.write('2');h.close()"),
    "torch.load": (
        "import torch\ntorch.save(torch.tensor(1),'a.pt')\ndef f(s): return (int(torch.load('a.pt')),s)",
        "torch.save(torch.tensor(2),'a.pt')"),
    "np.memmap inside": (
        "import numpy as np\nh=open('m.bin','wb');h.write(b'1234');h.close()\ndef f(s): return (int(np.memmap('m.bin',mode='r')[0]),s)",
        "h=open('m.bin','r+b');h.write(b'2');h.close()"),
    "np.fromfile": (
        "import numpy as np\nh=open('m.bin','wb');h.write(b'1234');h.close()\ndef f(s): return (int(np.fromfile('m.bin',dtype='u1')[0]),s)",
        "h=open('m.bin','r+b');h.write(b'2');h.close()"),
    "urllib": (
        "import urllib.request,os\nh=open('u.txt','w');h.write('1');h.close()\ndef f(s): return (urllib.request.urlopen('file://'+os.path.abspath('u.txt')+'').read(),s)",
        "h=open('u.txt','w');h.write('2');h.close()"),
}  # fmt: skip
TRICKS = SETTINGS | PATCHES | FILES


@pytest.fixture(autouse=True)
def tidy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with decimal.localcontext():
        yield


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", TRICKS)
@pytest.mark.filterwarnings("ignore")
def test_the_second_answer_is_right(name, layout):
    Trick(*TRICKS[name]).check(layout)
