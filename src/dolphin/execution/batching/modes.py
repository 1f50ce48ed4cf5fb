"""The mode that operations run in: gradients, autocast, settings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import is_grad_enabled, is_inference_mode_enabled

from dolphin.settings import Settings, current_settings, settings_in_force


class Mode(NamedTuple):
    """What tensor operations depend on besides their arguments."""

    gradients: bool
    inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]  # where it is on
    settings: Settings

    @classmethod
    def current(cls) -> Mode:
        gradients, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        return cls(gradients, inference, _autocast("cpu") + _autocast("cuda"), current_settings())

    def in_force(self) -> bool:
        """Whether it is the current mode."""
        return self.glance() == now_at_a_glance() or Mode.current() == self

    def glance(self) -> Glance | None:
        """What `now_at_a_glance` is in this mode; None where a glance doesn't tell."""
        if self.autocast:
            return None
        return (self.gradients, self.inference, False, self.settings)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """A block in this mode."""
        now = Mode.current()
        if now == self:
            yield
            return
        with contextlib.ExitStack() as stack:
            if now.inference != self.inference:
                stack.enter_context(torch.inference_mode(self.inference))
            stack.enter_context(torch.set_grad_enabled(self.gradients))
            for kind in ("cpu", "cuda"):
                wanted = next((own for own in self.autocast if own[0] == kind), (kind, None))
                if wanted not in (*now.autocast, (kind, None)):
                    stack.enter_context(torch.autocast(kind, dtype=wanted[1]))
                elif wanted[1] is None and any(own[0] == kind for own in now.autocast):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            stack.enter_context(settings_in_force(self.settings))
            yield


Glance = tuple[bool, bool, bool, Settings]


def now_at_a_glance() -> Glance:
    """What every operation checks, to see that the mode is still the same."""
    return (is_grad_enabled(), is_inference_mode_enabled(), _casts(), current_settings())


def _casts_somewhere() -> bool:
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


# One call instead of one per device, where torch has it.
_casts: Callable[[], bool] = getattr(torch._C, "_is_any_autocast_enabled", _casts_somewhere)


def _autocast(kind: str) -> tuple[tuple[str, torch.dtype], ...]:
    return ((kind, torch.get_autocast_dtype(kind)),) if torch.is_autocast_enabled(kind) else ()
