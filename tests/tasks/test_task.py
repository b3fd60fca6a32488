"""Every task's hooks fit together."""

from typing import Any, get_args, get_type_hints

import pytest

from quatgraph import config as configs
from quatgraph.presets import names, parts, protocols
from quatgraph.tasks import TASKS
from quatgraph.tasks.task import Task

every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


def settings(task: Task) -> dict[str, Any]:
    return configs.flatten(configs.to_dict(task.config()))


@every_task
def test_a_task_is_found_by_its_name(task: Task) -> None:
    assert TASKS[task.name] is task
    assert {parts(name)[0] for name in names(task.name)} == {task.name}


@every_task
def test_what_may_vary_is_a_setting_that_decides_a_number(task: Task) -> None:
    identity = configs.flatten(task.config().identity())
    whole = configs.flatten(configs.to_dict(task.config()))
    assert set(task.varying) <= whole.keys()  # what was added later is left out at its default
    assert identity.keys() < settings(task).keys()
    assert "seeds" not in identity


@every_task
def test_every_model_can_be_chosen(task: Task) -> None:
    assert task.config().model.name in task.models
    for name, model in task.models.items():
        built = configs.build(task.config, {"model": {"name": name}})
        assert type(built.model) is model.Options
        assert built.model == model.Options()
        assert built.model.name == name


@every_task
def test_a_task_is_searched_under_protocols_that_there_are(task: Task) -> None:
    searched = protocols(task.name)["searched"]
    assert set(searched) <= set(get_args(get_type_hints(task.config)["protocol"]))
    assert len(set(searched)) == len(searched) > 0
