"""Searches behind the tables: each method has the same number of configurations."""

import math

import pytest

from quatgraph import config as configs
from quatgraph.presets import preset
from quatgraph.tasks import TASKS
from tools.searches import complete_axes, read_searches


@pytest.mark.parametrize(("name", "values"), read_searches().items())
def test_every_search_builds_and_has_the_axes_that_it_names(name: str, values: dict) -> None:
    named = configs.flatten(configs.override({}, values["set"]))
    size = math.prod(len(axis) for axis in named.values() if isinstance(axis, list))
    for one in values["presets"]:
        task = TASKS[one.partition("/")[0]]
        axes = configs.flatten(configs.override({}, complete_axes(one, values["set"])))
        lists = {key: axis if isinstance(axis, list) else [axis] for key, axis in axes.items()}
        found = configs.expand_grid(preset(one), lists)
        built = {configs.digest(configs.build(task.config, made).identity()) for made in found}
        assert len(built) == size


def test_the_grid_of_the_task_is_fixed_where_a_search_does_not_name_it() -> None:
    axes = complete_axes("link/codex-s-relqgnn-n3", ["train.lr=[0.1, 0.2]"])
    assert set(axes) == {"train.lr=[0.1, 0.2]", "model.dim_quats=500", "model.num_layers=1"}
