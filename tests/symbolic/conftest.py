"""What the tests of the symbolic stage share."""

import codecs

import pytest

from dolphin.symbolic.identity import codec_state


@pytest.fixture(autouse=True)
def _forget_handlers_of_encoding_errors():
    """Python can't unregister them, and functions that encode are not remembered beside them."""
    _, handlers = codec_state._PLACES or ([], {})
    before = dict(handlers)
    yield
    for name in handlers.keys() - before.keys():
        codecs.register_error(name, codecs.strict_errors)
