"""Work that leaves most of a GPU idle, many pieces of it at once."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def side_by_side(
    calls: Sequence[Callable[[Tensor], Tensor]], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """What each call makes of its input. On a GPU each has a stream of its own, and so has its
    gradient; a captured step keeps them side by side.

    A call may read other tensors that outlive the backward pass, as parameters do.
    """
    if not inputs[0].is_cuda:
        return [call(x) for call, x in zip(calls, inputs, strict=True)]
    main, found = torch.cuda.current_stream(), []
    for number, (call, x) in enumerate(zip(calls, inputs, strict=True)):
        side = _stream(number, x.device)
        side.wait_stream(main)
        x.record_stream(side)  # or its memory might be given away while the side still reads it
        with torch.cuda.stream(side):
            found.append(call(x))
    for number, y in enumerate(found):
        main.wait_stream(_stream(number, y.device))
        y.record_stream(main)
    return found


_STREAMS: dict[torch.device, list[torch.cuda.Stream]] = {}


def _stream(number: int, device: torch.device) -> torch.cuda.Stream:
    """One of a few, made at its first use: a GPU has room for about so many at once."""
    streams = _STREAMS.setdefault(device, [])
    while len(streams) <= number % _MOST:
        streams.append(torch.cuda.Stream(device))
    return streams[number % _MOST]


_MOST = 32
