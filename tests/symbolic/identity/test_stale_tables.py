# ruff: noqa: E501 (programs in strings)
"""Codecs of the user's own, and tables of libraries that are changed in place."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import dolphin as dl
from dolphin.symbolic.identity.effects import effects_of
from python_process import run
from tricks import LAYOUTS, Trick

CODEC = """
import codecs
k = ['1']
def search(name):
    if name == 'own':
        return codecs.CodecInfo(lambda s, e='strict': (k[0].encode(), len(s)), lambda b, e='strict': (k[0], len(b)), name=name)
codecs.register(search)
"""


def own(source, change):
    """A trick with a codec called "own", whose state changes."""
    return CODEC + source, change, "codecs.unregister(search)"


CODECS = {
    'codec state const': own(
        "def f(s): return 'x'.encode('own').decode()+str(s)",
        "k[0]='2'"),
    'codec state symbol encodes': own(
        "symbols=['a','b']\ndef f(s): return s.encode('own').decode()+s",
        "k[0]='2'"),
    'codec name in global': own(
        "n='own'\ndef f(s): return 'x'.encode(n).decode()+str(s)",
        "k[0]='2'"),
    'codec name in list': own(
        "n=['own']\ndef f(s): return 'x'.encode(n[0]).decode()+str(s)",
        "k[0]='2'"),
    'codec name computed': own(
        "def f(s): return 'x'.encode('ow'+'no'[:1+(s>5)]).decode()+str(s)",
        "k[0]='2'"),
    'codec name is symbol': own(
        "symbols=['own','utf-8']\ndef f(s): return 'x'.encode(s).decode()+s",
        "k[0]='2'"),
    'codec via str()': own(
        "def f(s): return str(b'x','own')+str(s)",
        "k[0]='2'"),
    'codec via bytes()': own(
        "def f(s): return bytes('x','own').decode()+str(s)",
        "k[0]='2'"),
    'codec via str() computed': own(
        "symbols=['own','utf-8']\ndef f(s): return str(b'x',s)+s",
        "k[0]='2'"),
    'codec via bytearray keyword': own(
        "n={'e':'own'}\ndef f(s): return bytearray('x',encoding=n['e']).decode()+str(s)",
        "k[0]='2'"),
    'codec registered later': (
        "import codecs\ndef search(n):\n  if n=='trk': return codecs.CodecInfo(lambda s,e='strict':(b'q',len(s)),lambda b,e='strict':('q',len(b)),name=n)\ndef f(s):\n  try: return 'x'.encode('trk').decode()+str(s)\n  except LookupError: return str(s)",
        'codecs.register(search)',
        'codecs.unregister(search)'),
    'codec unregistered and replaced': own(
        "def f(s): return 'x'.encode('own').decode()+str(s)",
        "codecs.unregister(search)\ndef search(n):\n  if n=='own': return codecs.CodecInfo(lambda s,e='strict':(b'new',len(s)),lambda b,e='strict':('q',len(b)),name=n)\ncodecs.register(search)"),
    'codec in helper': own(
        "def g(x): return x.encode('own').decode()\ndef f(s): return g('x')+str(s)",
        "k[0]='2'"),
    'codec via urllib quote': own(
        "import urllib.parse\ndef f(s): return urllib.parse.quote('x y',encoding='own')+str(s)",
        "k[0]='2'"),
    'codec via unquote': own(
        "import urllib.parse\ndef f(s): return urllib.parse.unquote('%41',encoding='own')+str(s)",
        "k[0]='2'"),
    'codec via np.char': own(
        "import numpy as np\na=np.array(['x'])\ndef f(s): return str(np.char.encode(a,'own')[0])+str(s)",
        "k[0]='2'"),
    'codec default of function': own(
        "def f(s,n='own'): return 'x'.encode(n).decode()+str(s)",
        "k[0]='2'"),
    'codec in attribute': own(
        "class A: pass\na=A();a.n='own'\ndef f(s): return 'x'.encode(a.n).decode()+str(s)",
        "k[0]='2'"),
    'codec str.encode unbound': own(
        "def f(s): return str.encode('x','own').decode()+str(s)",
        "k[0]='2'"),
    'codec bound method passed': own(
        "e='x'.encode\ndef f(s): return e('own').decode()+str(s)",
        "k[0]='2'"),
    'codec partial': own(
        "import functools\ng=functools.partial(str,encoding='own')\ndef f(s): return g(b'x')+str(s)",
        "k[0]='2'"),
    'codec methodcaller': own(
        "import operator\ng=operator.methodcaller('encode','own')\ndef f(s): return g('x').decode()+str(s)",
        "k[0]='2'"),
    'codec map': own(
        "def f(s): return list(map(str.encode,['x'],['own']))[0].decode()+str(s)",
        "k[0]='2'"),
    'codec alias table': (
        "import encodings.aliases as A\nA.aliases['trx']='rot_13'\nimport codecs\ndef f(s):\n  return 'x'.encode('try1').decode()+str(s)\ndef srch(n):\n  return codecs.lookup(tab[n]) if n in tab else None\ntab={'try1':'utf-8'}\ncodecs.register(srch)",
        "tab['try1']='utf-16-be';codecs.unregister(srch);codecs.register(srch)",
        "codecs.unregister(srch);A.aliases.pop('trx')"),
    'handler registered later': (
        "import codecs\ndef f(s):\n  try: return 'é'.encode('ascii','trh1').decode()+str(s)\n  except LookupError: return str(s)",
        "codecs.register_error('trh1',lambda e:('1',e.end))",
        "codecs.register_error('trh1',codecs.strict_errors)"),
    'handler name in list': (
        "import codecs\ncodecs.register_error('trh2',lambda e:('1',e.end))\nn=['trh2']\ndef f(s): return 'é'.encode('ascii',n[0]).decode()+str(s)",
        "codecs.register_error('trh2',lambda e:('2',e.end))",
        "codecs.register_error('trh2',codecs.strict_errors)"),
    'handler name is symbol': (
        "import codecs\ncodecs.register_error('trh3',lambda e:('1',e.end))\nsymbols=['trh3','ignore']\ndef f(s): return 'é'.encode('ascii',s).decode()+s",
        "codecs.register_error('trh3',lambda e:('2',e.end))",
        "codecs.register_error('trh3',codecs.strict_errors)"),
}  # fmt: skip

TABLES = {
    'html5 table': (
        "import html,html.entities\nold=html.entities.html5['lt;']\ndef f(s): return html.unescape('&lt;')+str(s)",
        "html.entities.html5['lt;']='Q'",
        "html.entities.html5['lt;']=old"),
    'html5 added': (
        "import html,html.entities\ndef f(s): return html.unescape('&dolphin;')+str(s)",
        "html.entities.html5['dolphin;']='Q'",
        "html.entities.html5.pop('dolphin;')"),
    'html invalid charrefs': (
        "import html\nold=html._invalid_charrefs[0x80]\ndef f(s): return html.unescape('&#x80;')+str(s)",
        "html._invalid_charrefs[0x80]='Q'",
        'html._invalid_charrefs[0x80]=old'),
    'urllib uses_relative': (
        "import urllib.parse\ndef f(s): return urllib.parse.urljoin('trk://a/b/c','d')+str(s)",
        "urllib.parse.uses_relative.append('trk')",
        "urllib.parse.uses_relative.remove('trk')"),
    'calendar mdays': (
        'import calendar\ndef f(s): return calendar.monthrange(2021,2)[1]*10+s',
        'calendar.mdays[2]=30',
        'calendar.mdays[2]=28'),
    'pprint dispatch': (
        "import pprint\ndef f(s): return pprint.pformat({'a'*50:s,'b'*50:2})",
        "old=pprint.PrettyPrinter._dispatch[dict.__repr__]\npprint.PrettyPrinter._dispatch[dict.__repr__]=lambda self,o,st,*a: st.write('Q')",
        'pprint.PrettyPrinter._dispatch[dict.__repr__]=old'),
    'textwrap trans table': (
        "import textwrap\nold=dict(textwrap.TextWrapper.unicode_whitespace_trans)\ndef f(s): return textwrap.fill('a\\tb %d'%s,50,expand_tabs=False)",
        "textwrap.TextWrapper.unicode_whitespace_trans[9]=ord('Q')",
        'textwrap.TextWrapper.unicode_whitespace_trans.update(old)'),
    'json constants': (
        "import json.decoder\nold=json.decoder._CONSTANTS['NaN']\ndef f(s): return str(json.loads('NaN'))+str(s)",
        "json.decoder._CONSTANTS['NaN']=5",
        "json.decoder._CONSTANTS['NaN']=old"),
    'json escape table': (
        "import json,json.encoder\nold=json.encoder.c_make_encoder\njson.encoder.c_make_encoder=None\nold2=json.encoder.encode_basestring_ascii\njson.encoder.encode_basestring_ascii=json.encoder.py_encode_basestring_ascii\ndef f(s): return json.JSONEncoder().encode('\\n')+str(s)",
        "json.encoder.ESCAPE_DCT['\\n']='Q'",
        "json.encoder.ESCAPE_DCT['\\n']='\\\\n';json.encoder.c_make_encoder=old;json.encoder.encode_basestring_ascii=old2"),
    'fractions kwdefaults deep': (
        "import json\nold=json.JSONEncoder.__init__.__kwdefaults__\ndef f(s): return json.JSONEncoder().encode({'b':s,'a':1})",
        'json.JSONEncoder.__init__.__kwdefaults__=dict(old,sort_keys=True)',
        'json.JSONEncoder.__init__.__kwdefaults__=old'),
    'kwdefaults in place deep': (
        "import json\nkw=json.JSONEncoder.__init__.__kwdefaults__\ndef f(s): return json.JSONEncoder().encode({'b':s,'a':1})",
        "kw['sort_keys']=True",
        "kw['sort_keys']=False"),
    'kwdefaults in place dumps': (
        "import json\nkw=json.dumps.__kwdefaults__\ndef f(s): return json.dumps({'b':s,'a':1})",
        "kw['sort_keys']=True",
        "kw['sort_keys']=False"),
    'default list of library': (
        "import statistics\nold=statistics.quantiles.__kwdefaults__['n']\ndef f(s): return len(statistics.quantiles([1,2,3]))*10+s",
        "statistics.quantiles.__kwdefaults__['n']=5",
        "statistics.quantiles.__kwdefaults__['n']=old"),
    'copy dispatch beneath dataclasses': (
        'import dataclasses,copy\n@dataclasses.dataclass\nclass P:\n  x:object\ndef f(s): return str(dataclasses.asdict(P({1})))+str(s)',
        "copy._deepcopy_dispatch[set]=lambda x,m:'Q'",
        'copy._deepcopy_dispatch.pop(set)'),
    'copyreg beneath dataclasses.replace deep': (
        'import copy,copyreg\nclass A: pass\nz=[A]\ndef f(s): return (type(copy.deepcopy({1:A()})[1]).__name__,s)',
        'copyreg.pickle(A,lambda a:(int,()))',
        'copyreg.dispatch_table.pop(A)'),
    'numbers register': (
        'import numbers\nclass A: pass\ndef f(s): return (isinstance(A(),numbers.Number),s)',
        'numbers.Number.register(A)'),
    'enum table of library': (
        'import http\ndef f(s): return (http.HTTPStatus(200).phrase,s)',
        "old=http.HTTPStatus(200).phrase;http.HTTPStatus(200).phrase='Q'",
        'http.HTTPStatus(200).phrase=old'),
    'colorsys constant': (
        'import colorsys\nold=colorsys.ONE_THIRD\ndef f(s): return colorsys.hls_to_rgb(.3,.5,.5)[0]+s',
        'colorsys.ONE_THIRD=.2',
        'colorsys.ONE_THIRD=old'),
    'base64 alphabet': (
        "import base64\ndef f(s): return base64.b32encode(b'abc%d'%s).decode()",
        'old=base64._b32alphabet;base64._b32alphabet=bytes(reversed(old))',
        'base64._b32alphabet=old'),
    'difflib junk': (
        "import difflib\ndef f(s): return difflib.SequenceMatcher(None,'ab c','ab d').ratio()*10+s",
        'old=difflib._calculate_ratio;difflib._calculate_ratio=lambda m,l:7.',
        'difflib._calculate_ratio=old'),
    'fnmatch beneath re tables': (
        "import re\nold=re._special_chars_map[ord('.')]\ndef f(s): return re.escape('.')+str(s)",
        "re._special_chars_map[ord('.')]='Q'",
        "re._special_chars_map[ord('.')]=old"),
    'operator table': (
        'import token\nold=token.tok_name[1]\ndef f(s): return token.tok_name[1]+str(s)',
        "token.tok_name[1]='Q'",
        'token.tok_name[1]=old'),
    'hashlib algos': (
        'import hashlib\ndef f(s): return (len(hashlib.algorithms_available),s)',
        "hashlib.algorithms_available.add('trk')",
        "hashlib.algorithms_available.discard('trk')"),
    'statistics kernel table': (
        'import statistics\nsm=statistics.fmean\ndef f(s): return statistics.NormalDist(0,1).cdf(0.)*10+s',
        "old=statistics.erf if hasattr(statistics,'erf') else None\nstatistics.erf=lambda x:.2",
        'statistics.erf=old'),
    'unicodedata patched': (
        "import unicodedata\nold=unicodedata.name\ndef f(s): return unicodedata.name('a')+str(s)",
        "unicodedata.name=lambda c:'Q'",
        'unicodedata.name=old'),
    'datetime day names': (
        'import calendar\ndef f(s): return calendar.day_name[s]',
        "old=calendar.day_name;calendar.day_name=['Q','R']",
        'calendar.day_name=old'),
    'calendar TextCalendar instance': (
        'import calendar\ndef f(s): return calendar.month(2020,s+1)',
        'calendar.setfirstweekday(6)',
        'calendar.setfirstweekday(0)'),
    'numpy type table': (
        "import numpy as np\nold=np.sctypeDict['float']\ndef f(s): return str(np.sctypeDict['float'])+str(s)",
        "np.sctypeDict['float']=np.float32",
        "np.sctypeDict['float']=old"),
    'torch table': (
        "import torch\nimport torch.nn.init as I\ndef f(s): return float(I.calculate_gain('relu'))*10+s",
        'old=I.math;import types\nI.math=types.SimpleNamespace(sqrt=lambda x:9.)',
        'I.math=old'),
    'typing of library table': (
        'import types\ndef f(s): return (len(types.__all__),s)',
        "types.__all__.append('zz')",
        'types.__all__.pop()'),
}  # fmt: skip


@pytest.mark.parametrize("name", CODECS)
def test_codecs_that_users_register(name):
    Trick(*CODECS[name]).check(LAYOUTS[list(CODECS).index(name) % len(LAYOUTS)])


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_are_changed_in_place(name):
    Trick(*TABLES[name]).check(LAYOUTS[list(TABLES).index(name) % len(LAYOUTS)])


def test_a_codec_of_the_users_own_is_named_as_the_reason():
    trick = Trick(*CODECS["codec state const"])
    dl.cache_clear()
    trick.check("shared")
    (only,) = dl.cache_info().not_remembered
    assert only.reason == "may encode with a user-defined codec or error handler, `search`"


# What code of a library does, remembered although it fills caches (patterns, tables of encodings).
REMEMBERED = {
    "abstract": ("import numbers", "isinstance(s, numbers.Number) + s"),
    "ast": ("import ast", "ast.literal_eval('[%d]' % s)[0]"),
    "base 32": ("import base64", "base64.b32encode(b'a%d' % s)"),
    "calendar": ("import calendar", "calendar.monthrange(2020, s + 1)[1]"),
    "Counter": ("import collections", "collections.Counter([s, 1]).most_common(1)[0]"),
    "dates": ("import datetime", "datetime.datetime.strptime('0%d' % (s + 1), '%m').month"),
    "deep copy": ("import copy", "copy.deepcopy([s])[0]"),
    "encoded": ("", "'é'.encode('latin-1', 'ignore')[0] + s"),
    "decoded": ("", "str(b'a', 'ascii') + str(s)"),
    "enum": ("import enum\nclass C(enum.Enum):\n  A = 0\n  B = 1", "C(s).name"),
    "fnmatch": ("import fnmatch", "fnmatch.fnmatch('a%d' % s, 'a*')"),
    "fractions": ("import fractions", "fractions.Fraction(s, 3) + 1"),
    "html": ("import html", "html.unescape('&lt;%d' % s)"),
    "json": ("import json", "json.dumps({'a': s}, indent=1)"),
    "json read": ("import json", "json.loads('[%d]' % s)[0]"),
    "numpy": ("import numpy as np", "float(np.sqrt(s)) + float(np.linalg.norm([s, 1.0]))"),
    "parse": ("import urllib.parse", "urllib.parse.urlparse('http://a/%d' % s).path"),
    "pattern": ("import re\np = re.compile('a')", "bool(p.match('a')) + s"),
    "pprint": ("import pprint", "pprint.pformat({'a': s})"),
    "quote": ("import urllib.parse", "urllib.parse.quote('a b%d' % s)"),
    "re": ("import re", "re.sub('A', 'b', 'a%d' % s, flags=re.I | re.M)"),
    "statistics": ("import statistics", "statistics.mean([s, 1])"),
    "template": ("import string", "string.Template('$a').substitute(a=s)"),
    "textwrap": ("import textwrap", "textwrap.fill('a b %d' % s, 3)"),
    "torch": ("import torch", "float(torch.tensor(float(s)).sqrt())"),
}


def calls_of(name):
    """How often the function runs at each of three steps, and why it is not remembered."""
    before, result = REMEMBERED[name]
    f = Trick(f"{before}\ndef f(s): return {result}", "").scope["f"]
    dl.cache_clear()
    calls = []
    for _ in range(3):
        with dl.profile() as seen:
            dl.Distribution([0.5, 0.5], [0, 1]).map(f)
        calls.append(seen.total.function_calls)
    return calls, dl.cache_info().not_remembered


def test_functions_that_use_libraries_are_called_once(tmp_path):
    # In a process of its own: how large the tables of libraries are depends on what is imported.
    script = tmp_path / "script.py"
    script.write_text(
        "from test_stale_tables import REMEMBERED, calls_of\n"
        "for name in REMEMBERED:\n"
        "    calls, reasons = calls_of(name)\n"
        "    assert calls == [2, 0, 0], (name, calls, reasons)\n"
        "print(len(REMEMBERED))\n"
    )
    paths = [str(Path(__file__).parent), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ended = run(script, environment=environment)
    assert ended.output.split() == [str(len(REMEMBERED))], ended.errors


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("t[x] = 1", {"t"}),
        ("t[f(x), 1] = y", {"t"}),
        ("del t[x]", {"t"}),
        ("t.pop(x)", {"t"}),
        ("a.t.setdefault(x, [])", {"t"}),
        ("u = t; u[x] = t2[x]", {"t"}),
        ("return t[x]", set()),
        ("return t.get(x, u)", set()),
        ("v = {}; v[x] = t[x]", {"v"}),
        ("return [t.append(y) for y in x]", {"t"}),
    ],
)
def test_which_containers_code_changes(source, changed):
    scope = {}
    exec(f"def f(x, y): {source}", scope)
    assert effects_of(scope["f"].__code__).changed == changed


@pytest.mark.parametrize(
    ("source", "encodes"),
    [
        ("str(x)", False),
        ("str(f(x, y)) + 'a'", False),
        ("str(x, y)", True),
        ("str(f(x), encoding=y)", True),
        ("bytes([x])", False),
        ("bytes(*x)", True),
        ("x.encode()", False),
        ("x.encode(y)", True),
        ("x.decode('ascii')", True),
        ("f(str, x)", True),
        ("(lambda: x.encode(y))()", True),
    ],
)
def test_whether_code_encodes_by_name(source, encodes):
    assert effects_of(eval(f"lambda x, y: {source}").__code__).encodes == encodes
