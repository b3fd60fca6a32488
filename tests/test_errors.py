"""The one exception a person is meant to see."""

from quatgraph.errors import UserError, did_you_mean


def test_a_user_error_is_its_message_and_a_value_error():
    assert str(UserError("use 8")) == "use 8"
    assert issubclass(UserError, ValueError)  # `except ValueError` catches a wrong argument


def test_the_closest_known_name_is_offered_or_nothing():
    assert did_you_mean("cor", {"cora", "pubmed"}) == "; did you mean 'cora'?"
    assert did_you_mean("cor", {"cora", "pubmed"}, "data.") == "; did you mean 'data.cora'?"
    assert did_you_mean("zzz", {"cora", "pubmed"}) == ""
    assert did_you_mean("cora", iter(())) == ""
