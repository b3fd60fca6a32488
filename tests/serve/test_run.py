"""Where the service listens, and who may ask."""

import socket

import pytest

from quatgraph.errors import UserError
from quatgraph.serve.run import Address, bind


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_a_loopback_address_needs_no_token(host: str) -> None:
    assert Address(host).token == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "127.0.0.2", "example.org", ""])
def test_an_address_that_others_reach_needs_a_token_or_a_word(host: str) -> None:
    with pytest.raises(UserError, match="can be reached from other machines: give --token, for"):
        Address(host)
    assert Address(host, token="secret").token == "secret"
    assert Address(host, no_auth=True).no_auth


@pytest.mark.parametrize("token", ["two words", "line\n", "pässword", "\t", "nul\0"])
def test_a_token_that_no_header_carries_is_refused(token: str) -> None:
    with pytest.raises(UserError, match="a token is made of visible ASCII characters"):
        Address(token=token)


@pytest.mark.parametrize("origin", ["*", "", "site.example", "https://a.example/", "https://a/b"])
def test_an_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    with pytest.raises(UserError, match="is not the origin of a site; write it as"):
        Address(origins=frozenset({origin}))


def test_an_origin_may_have_a_port() -> None:
    assert Address(origins=frozenset({"http://localhost:3000"}))


def test_a_bound_port_already_takes_connections() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        with pytest.raises(UserError) as caught:
            bind("127.0.0.1", port)
    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:{port} (Address already in use): choose another --port"
    )


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(UserError, match=r"192\.0\.2\.1:0 \(.*\): choose another --host"):
        bind("192.0.2.1", 0)


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "300.1.1.1"])
def test_an_address_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(UserError, match=r"\(there is no such address\): choose another --host"):
        bind(host, 0)
