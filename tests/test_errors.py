"""The one exception a person is meant to see."""

from quatgraph.errors import UserError, did_you_mean


def test_a_mistake_is_its_message():
    assert str(UserError("use 8")) == "use 8"
    assert not issubclass(UserError, ValueError)  # a ValueError is a bug, and is shown as one


def test_the_closest_known_name_is_offered_or_nothing():
    assert did_you_mean("cor", {"cora", "pubmed"}) == "; did you mean 'cora'?"
    assert did_you_mean("cor", {"cora", "pubmed"}, "data.") == "; did you mean 'data.cora'?"
    assert did_you_mean("zzz", {"cora", "pubmed"}) == ""
    assert did_you_mean("cora", iter(())) == ""
