"""No kernel is left out of the interpreted tests, which run only where Triton is installed."""

from pathlib import Path

from launches import KERNELS, LAUNCHES


def test_every_function_that_launches_a_kernel_has_an_interpreted_test() -> None:
    tests = Path(__file__).with_name("test_interpreted.py").read_text()
    assert LAUNCHES
    assert not [launch for launch in sorted(LAUNCHES) if f'"{launch}"' not in tests]


def test_every_module_of_kernels_launches_one_or_is_used_by_one_that_does() -> None:
    helpers = {"activation"}  # what an activation is, within the kernels of others
    modules = {path.stem for path in KERNELS.glob("[a-z]*.py")}
    assert modules - {launch.split(".")[0] for launch in LAUNCHES} == helpers
