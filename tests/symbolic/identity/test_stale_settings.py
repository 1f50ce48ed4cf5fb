# ruff: noqa: E501 (programs in strings)
"""Changes of settings, modules, arrays and tensors, each in one of the layouts."""

from __future__ import annotations

import pytest

from tricks import LAYOUTS, Trick

TRICKS = {
    'np seterrcall': (
        "import numpy as np\nL=[]\nnp.seterr(all='call');np.seterrcall(lambda *a:None)\ndef f(s):\n  try: return float(np.float64(1)/np.float64(0))+s\n  except ZeroDivisionError: return -1.-s",
        'def boom(*a): raise ZeroDivisionError\nnp.seterrcall(boom)',
        "np.seterr(all='warn');np.seterrcall(None)"),
    'contextvar in decorator': (
        "import contextvars\nv=contextvars.ContextVar('va')\nv.set(1)\ndef d(g): return lambda s: g(s)*v.get()\n@d\ndef f(s): return s+3",
        'v.set(2)'),
    'contextvar lookup error': (
        "import contextvars\nv=contextvars.ContextVar('vb')\ndef f(s):\n  try: return v.get()*10+s\n  except LookupError: return s",
        'tk=v.set(4)',
        'v.reset(tk)'),
    'contextvar get default': (
        "import contextvars\nv=contextvars.ContextVar('vc')\ndef f(s): return v.get(0)*10+s",
        'tk=v.set(4)',
        'v.reset(tk)'),
    'contextvar passed': (
        "import contextvars\nv=contextvars.ContextVar('vd',default=1)\ndef g(x): return x.get()\ndef f(s): return g(v)*10+s",
        'tk=v.set(4)',
        'v.reset(tk)'),
    'contextvar mutable': (
        "import contextvars\nv=contextvars.ContextVar('ve',default={'k':1})\ndef f(s): return v.get()['k']*10+s",
        "v.get()['k']=3"),
    'copy_context': (
        "import contextvars\nv=contextvars.ContextVar('vf',default=1)\ndef f(s): return len(list(contextvars.copy_context()))*0+v.get()*10+s",
        'v.set(5)'),
    'environ in helper': (
        "import os\ndef g(): return os.environ.get('TRKE','0')\ndef f(s): return g()+str(s)",
        "os.environ['TRKE']='2'",
        "os.environ.pop('TRKE',None)"),
    'from os import environ': (
        "from os import environ\nenviron['TRKF']='1'\ndef f(s): return environ['TRKF']+str(s)",
        "environ['TRKF']='2'",
        "environ.pop('TRKF')"),
    'from os import getenv as g': (
        "from os import getenv as g\nimport os\nos.environ['TRKG']='1'\ndef f(s): return g('TRKG')+str(s)",
        "os.environ['TRKG']='2'",
        "os.environ.pop('TRKG')"),
    'os.getcwd': (
        'import os\ndef f(s): return os.getcwd()+str(s)',
        "old=os.getcwd();os.chdir('/')",
        'os.chdir(old)'),
    'os.path.abspath': (
        "import os.path\ndef f(s): return os.path.abspath('x')+str(s)",
        "import os;old=os.getcwd();os.chdir('/')",
        'os.chdir(old)'),
    'pathlib cwd': (
        'import pathlib\ndef f(s): return str(pathlib.Path.cwd())+str(s)',
        "import os;old=os.getcwd();os.chdir('/')",
        'os.chdir(old)'),
    'pathlib resolve': (
        "import pathlib\np=pathlib.Path('x')\ndef f(s): return str(p.resolve())+str(s)",
        "import os;old=os.getcwd();os.chdir('/')",
        'os.chdir(old)'),
    'locale numeric n': (
        "import locale\nold=locale.setlocale(locale.LC_ALL)\nlocale.setlocale(locale.LC_ALL,'C')\ndef f(s): return (locale.setlocale(locale.LC_CTYPE),s)",
        "locale.setlocale(locale.LC_CTYPE,'C.UTF-8')",
        'locale.setlocale(locale.LC_ALL,old)'),
    'locale strxfrm': (
        'import locale\ndef f(s): return (locale.getlocale(),s)',
        "old=locale.setlocale(locale.LC_CTYPE);locale.setlocale(locale.LC_CTYPE,'C')",
        'locale.setlocale(locale.LC_CTYPE,old)'),
    'decimal from import': (
        'from decimal import Decimal as D\nimport decimal\ndef f(s): return str(D(s+1)/3)',
        'decimal.getcontext().prec=6',
        'decimal.getcontext().prec=28'),
    'decimal context object': (
        'import decimal\nc=decimal.Context(prec=5)\ndef f(s): return str(c.divide(decimal.Decimal(1),3))+str(s)',
        'c.prec=8'),
    'decimal getcontext in f': (
        'import decimal\ndef f(s): return decimal.getcontext().prec*10+s',
        'decimal.getcontext().prec=6',
        'decimal.getcontext().prec=28'),
    'decimal symbol quantize': (
        "import decimal\nsymbols=[decimal.Decimal('1.25'),decimal.Decimal('2.35')]\ndef f(s): return str(round(s,1))",
        'decimal.getcontext().rounding=decimal.ROUND_UP',
        'decimal.getcontext().rounding=decimal.ROUND_HALF_EVEN'),
    'decimal symbol add': (
        "import decimal\nsymbols=[decimal.Decimal('1.2345678'),decimal.Decimal('2.3')]\ndef f(s): return s+s",
        'decimal.getcontext().prec=3',
        'decimal.getcontext().prec=28'),
    'fraction from decimal': (
        "import fractions,decimal\ndef f(s): return str(+decimal.Decimal('1.23456')+s)",
        'decimal.getcontext().prec=3',
        'decimal.getcontext().prec=28'),
    'statistics of decimals': (
        'import statistics,decimal\na=[decimal.Decimal(1),decimal.Decimal(2),decimal.Decimal(2)]\ndef f(s): return str(statistics.mean(a))+str(s)',
        'decimal.getcontext().prec=3',
        'decimal.getcontext().prec=28'),
    'sum of decimals': (
        "import decimal\na=[decimal.Decimal('1.23456789')]\ndef f(s): return str(sum(a))+str(s)",
        'decimal.getcontext().prec=3',
        'decimal.getcontext().prec=28'),
    'decimal in dict in attr': (
        "import decimal,types\nn=types.SimpleNamespace(t={'k':decimal.Decimal(1)})\ndef f(s): return str(n.t['k']/3)+str(s)",
        'decimal.getcontext().prec=3',
        'decimal.getcontext().prec=28'),
    'decimal as default': (
        'import decimal\ndef f(s,d=decimal.Decimal(1)): return str(d/3)+str(s)',
        'decimal.getcontext().prec=3',
        'decimal.getcontext().prec=28'),
    'np errstate via scalar global': (
        'import numpy as np\na=np.float64(1);z=np.float64(0)\ndef f(s):\n  try: return float(a/z)+s\n  except FloatingPointError: return -1.-s',
        "np.seterr(all='raise')",
        "np.seterr(all='warn')"),
    'np bufsize': (
        'import numpy as np\ndef f(s): return np.getbufsize()*10+s',
        'old=np.setbufsize(16384)',
        'np.setbufsize(old)'),
    'np printoptions via repr scalar': (
        'import numpy as np\na=np.array([1.23456789])\ndef f(s): return repr(a)+str(s)',
        'np.set_printoptions(precision=2)',
        'np.set_printoptions(precision=8)'),
    'np format_float': (
        'import numpy as np\ndef f(s): return np.array2string(np.array([1/3]))+str(s)',
        'np.set_printoptions(precision=2)',
        'np.set_printoptions(precision=8)'),
    'np suppress': (
        "import numpy as np\nd=[np.array([1e-10,1.])]\ndef f(s): return f'{d[0]}'+str(s)",
        'np.set_printoptions(suppress=True)',
        'np.set_printoptions(suppress=False)'),
    'np vectorize': (
        'import numpy as np\nK=[1]\ng=np.vectorize(lambda x:x*K[0])\ndef f(s): return int(g(s))',
        'K[0]=5'),
    'np vectorize inside': (
        'import numpy as np\nK=[1]\ndef f(s): return int(np.vectorize(lambda x:x+K[0])(s))',
        'K[0]=5'),
    'np apply_along_axis': (
        'import numpy as np\nK=[1]\ndef g(r): return r.sum()*K[0]\ndef f(s): return int(np.apply_along_axis(g,0,np.array([s,1])))',
        'K[0]=5'),
    'np array global slice view': (
        'import numpy as np\na=np.arange(4);v=a[1:3]\ndef f(s): return int(v[s])',
        'a[1]=9'),
    'np broadcast view': (
        'import numpy as np\na=np.array([1]);v=np.broadcast_to(a,(3,))\ndef f(s): return int(v[s])*10+s',
        'a[0]=9'),
    'np array in dict': (
        "import numpy as np\nd={'a':np.array([1,2])}\ndef f(s): return int(d['a'][s])",
        "d['a'][0]=9"),
    'np array dtype view': (
        'import numpy as np\na=np.array([1],dtype=np.int64)\ndef f(s): return str(a.dtype)+str(s)',
        'a.dtype=np.float64'),
    'np array shape set': (
        'import numpy as np\na=np.arange(4)\ndef f(s): return a.ndim*10+s',
        'a.shape=(2,2)'),
    'np array flags': (
        'import numpy as np\na=np.arange(4)\ndef f(s): return (a.flags.writeable,s)',
        'a.flags.writeable=False'),
    'np recarray': (
        "import numpy as np\na=np.rec.array([(1,)],dtype=[('k','i8')])\ndef f(s): return int(a.k[0])*10+s",
        'a.k[0]=5'),
    'np matrix': (
        'import numpy as np\na=np.matrix([[1]])\ndef f(s): return int(a[0,0])*10+s',
        'a[0,0]=5'),
    'np memmap': (
        "import numpy as np,tempfile\np=tempfile.mktemp()\na=np.memmap(p,dtype=np.int64,mode='w+',shape=(1,));a[0]=1\ndef f(s): return int(a[0])*10+s",
        'a[0]=5'),
    'np nditer': (
        "import numpy as np\na=np.array([1])\nit=np.nditer(a,op_flags=['readwrite'])\ndef f(s): return int(it[0])*10+s",
        'a[0]=5'),
    'np subclass array': (
        'import numpy as np\nclass A(np.ndarray):\n  k=1\na=np.zeros(1).view(A)\ndef f(s): return a.k*10+s',
        'A.k=5'),
    'np array function override': (
        'import numpy as np\nclass A:\n  def __array__(self,*a,**k): return np.array(K)\nK=[1]\na=A()\ndef f(s): return int(np.sum(a))*10+s',
        'K[0]=5'),
    'torch num threads': (
        'import torch\ndef f(s): return torch.get_num_threads()*10+s',
        'old=torch.get_num_threads();torch.set_num_threads(3)',
        'torch.set_num_threads(old)'),
    'torch tensor in tuple': (
        'import torch\nt_=(torch.tensor([1]),)\ndef f(s): return int(t_[0][0])*10+s',
        't_[0].add_(4)'),
    'torch param data': (
        'import torch\np=torch.nn.Parameter(torch.ones(1))\ndef f(s): return float(p)*10+s',
        'p.data.fill_(5)'),
    'torch linear weights': (
        'import torch\nm=torch.nn.Linear(1,1)\ndef f(s): return round(float(m(torch.ones(1))),4)+s',
        'm.weight.data.add_(5)'),
    'torch embedding': (
        'import torch\nm=torch.nn.Embedding(2,1)\ndef f(s): return float(m.weight[s,0])',
        'm.weight.data.add_(5)'),
    'torch deterministic': (
        'import torch\ndef f(s): return (torch.are_deterministic_algorithms_enabled(),s)',
        'torch.use_deterministic_algorithms(True)',
        'torch.use_deterministic_algorithms(False)'),
    'torch matmul precision': (
        'import torch\ndef f(s): return (torch.get_float32_matmul_precision(),s)',
        "torch.set_float32_matmul_precision('medium')",
        "torch.set_float32_matmul_precision('highest')"),
    'torch view alias': (
        'import torch\na=torch.zeros(2);l=a.tolist\ndef f(s): return l()[s]*10+s',
        'a[0]=5'),
    'torch data_ptr list': (
        'import torch\na=torch.zeros(2);n=a.numpy()\ndef f(s): return float(n[s])*10+s',
        'a[0]=5'),
    'torch Size global': (
        'import torch\nz=torch.zeros(2,3).shape\ndef f(s): return z[s]',
        'z=torch.zeros(7,3).shape'),
    'torch default device helper': (
        'import torch\ndef g(): return torch.arange(2).device.type\ndef f(s): return g()+str(s)',
        "torch.set_default_device('meta')",
        'torch.set_default_device(None)'),
    'torch dtype finfo': (
        'import torch\ndef f(s): return float(torch.finfo().eps)+s',
        'torch.set_default_dtype(torch.float64)',
        'torch.set_default_dtype(torch.float32)'),
    'torch grad mode context': (
        'import torch\ndef f(s): return torch.is_grad_enabled()*10+s',
        'torch.set_grad_enabled(False)',
        'torch.set_grad_enabled(True)'),
    'sys.flags': (
        'import sys\ndef f(s): return (sys.flags.optimize,s,sys.trk3)\nsys.trk3=1',
        'sys.trk3=2',
        'del sys.trk3'),
    'sys.maxsize patched': (
        'import sys\ndef f(s): return (sys.maxsize,s)',
        'old=sys.maxsize;sys.maxsize=5',
        'sys.maxsize=old'),
    'sys.intern': (
        "import sys\ndef f(s): return sys.intern('a')+str(s)",
        "old=sys.intern;sys.intern=lambda x:'Q'",
        'sys.intern=old'),
    'sys.stdout replaced': (
        'import sys,io\ndef f(s): return (type(sys.stdout).__name__,s)',
        'old=sys.stdout;sys.stdout=io.StringIO()',
        'sys.stdout=old'),
    'sys displayhook': (
        'import sys\ndef f(s): return (sys.displayhook is sys.__displayhook__,s)',
        'sys.displayhook=print',
        'sys.displayhook=sys.__displayhook__'),
    'gc threshold': (
        'import gc\ndef f(s): return (gc.get_threshold(),s)',
        'old=gc.get_threshold();gc.set_threshold(500)',
        'gc.set_threshold(*old)'),
    'frame inspect': (
        "import inspect\ndef f(s): return (inspect.currentframe().f_globals['KK'],s)\nKK=1",
        'KK=2'),
    'sys._getframe': (
        "import sys\ndef f(s): return (sys._getframe().f_globals['KK'],s)\nKK=1",
        'KK=2'),
    'sys._getframe aliased': (
        "from sys import _getframe as g\ndef f(s): return (g(0).f_globals['KK'],s)\nKK=1",
        'KK=2'),
    'traceback via exception': (
        "KK=1\ndef f(s):\n  try: raise ValueError\n  except ValueError as e: return (e.__traceback__.tb_frame.f_globals['KK'],s)",
        'KK=2'),
    'importlib.reload': (
        "import sys,types,importlib,tempfile,os\nd=tempfile.mkdtemp();sys.path.insert(0,d)\nopen(d+'/trk_rel.py','w').write('def g(s): return s*10+1\\n')\nsys.dont_write_bytecode=True\nimport trk_rel\ndef f(s): return trk_rel.g(s)",
        "open(d+'/trk_rel.py','w').write('def g(s): return s*10+22\\n')\nimportlib.invalidate_caches();importlib.reload(trk_rel)",
        "sys.path.remove(d);sys.modules.pop('trk_rel')"),
    'importlib.import_module inside': (
        "import sys,types,importlib\nm=types.ModuleType('trk_im');m.k=1;sys.modules['trk_im']=m\ndef f(s): return importlib.import_module('trk_im').k*10+s",
        'm.k=2',
        "sys.modules.pop('trk_im')"),
    'module __getattr__ table': (
        "import types\nm=types.ModuleType('m');K={'z':1}\nm.__getattr__=lambda n: K[n]\ndef f(s): return m.z*10+s",
        "K['z']=2"),
    'module deleted attr falls to getattr': (
        "import types\nm=types.ModuleType('m');m.z=1\nm.__getattr__=lambda n: 7\ndef f(s): return m.z*10+s",
        'del m.z'),
    'submodule attr': (
        "import types,sys\nm=types.ModuleType('trkp');n=types.ModuleType('trkp.q');m.q=n;n.k=1\nsys.modules.update({'trkp':m,'trkp.q':n})\ndef f(s):\n  import trkp.q\n  return trkp.q.k*10+s",
        'n.k=2',
        "sys.modules.pop('trkp');sys.modules.pop('trkp.q')"),
    'builtins added name': (
        'import builtins\ndef f(s):\n  try: return trkb*10+s\n  except NameError: return s',
        'builtins.trkb=4',
        'del builtins.trkb'),
    'builtins print capture': (
        'import builtins\nold=builtins.abs\ng=abs\ndef f(s): return abs(-s-1)',
        'builtins.abs=lambda x:99+x',
        'builtins.abs=old'),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # some tricks change the filters, or divide by 0
@pytest.mark.parametrize("name", TRICKS)
def test_the_second_answer_is_right(name):
    Trick(*TRICKS[name]).check(LAYOUTS[list(TRICKS).index(name) % len(LAYOUTS)])
