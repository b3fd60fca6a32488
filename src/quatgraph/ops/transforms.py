"""What of ``torch.func`` is at work around an operation."""

from torch._C._functorch import TransformType, get_interpreter_stack


def transforms() -> list[TransformType]:
    """The transforms that an operation is called within, the outermost first."""
    return [level.key() for level in get_interpreter_stack() or []]


def differentiated() -> bool:
    """Whether a derivative of it is asked for by one of them, forward or backward."""
    return any(kind != TransformType.Vmap for kind in transforms())


def forward_derivatives() -> int:
    """How many of them ask for what goes forward along a direction."""
    return transforms().count(TransformType.Jvp)
