"""``Host`` headers that name this machine."""

import pytest

from l5kit.visualization.viewer.addresses import is_loopback_host

OWN = ["localhost", "LocalHost", "LOCALHOST", "127.0.0.1", "[::1]"]
PORTS = ["", ":1", ":80", ":8787", ":00080", ":65535"]

OTHERS = {
    "nothing": "",
    "blanks": " ",
    "a blank before": " localhost",
    "a blank behind": "localhost ",
    "a blank within": "local host",
    "a tab": "localhost\t",
    "a line end": "localhost\n",
    "a zero byte": "localhost\0",
    "brackets around a name": "[localhost]",
    "brackets the wrong way round": "]localhost[",
    "a bracket that opens": "[localhost",
    "a bracket that closes": "localhost]",
    "brackets around IPv4": "[127.0.0.1]",
    "brackets alone": "[]",
    "brackets twice": "[[::1]]",
    "brackets the wrong way round, IPv6": "]::1[",
    "IPv6 that is not closed": "[::1",
    "IPv6 that is not opened": "::1]",
    "IPv6 without brackets": "::1",
    "IPv6 without brackets, with a port": "::1:8787",
    "IPv6 written out": "[0:0:0:0:0:0:0:1]",
    "IPv6 with zeros": "[::0001]",
    "IPv6 of IPv4": "[::ffff:127.0.0.1]",
    "IPv6 with a zone": "[::1%25lo]",
    "IPv6 with text behind": "[::1]x",
    "IPv6 with a name behind": "[::1].evil.com",
    "any address of IPv6": "[::]",
    "a colon alone": ":",
    "a port alone": ":8787",
    "a port of no digits": "localhost:",
    "IPv6 with a port of no digits": "[::1]:",
    "two ports": "localhost:8787:1",
    "two colons": "localhost::8787",
    "a port that is no number": "localhost:http",
    "a port with letters": "localhost:87x",
    "a port with a blank": "localhost: 8787",
    "a port with a sign": "localhost:+8787",
    "a negative port": "localhost:-1",
    "a port of fullwidth digits": "localhost:８７８７",
    "port 0": "localhost:0",
    "a port that is too large": "localhost:65536",
    "a port of many digits": "localhost:" + 5000 * "1",
    "a user": "localhost@evil.com",
    "this machine as a user": "evil.com@localhost",
    "a user with password": "user:pass@localhost:8787",
    "a dot behind": "localhost.",
    "a dot behind, with a port": "127.0.0.1.:8787",
    "a dot before": ".localhost",
    "a name below": "evil.localhost",
    "a name above": "localhost.evil.com",
    "a name that begins alike": "localhostess",
    "the long name": "localhost.localdomain",
    "an address as part of a name": "127.0.0.1.evil.com",
    "another address of this machine": "127.0.0.2",
    "a short address": "127.1",
    "an address as a number": "2130706433",
    "an address in hexadecimal": "0x7f.0.0.1",
    "an address with zeros": "127.000.000.001",
    "any address": "0.0.0.0",
    "other digits": "１２７.0.0.1",
    "a letter that folds to another": "lo\u212aalhost",
    "a long s": "localho\u017ft",
    "a path": "localhost/",
    "a query": "localhost?",
    "a fragment": "localhost#",
    "a scheme": "http://localhost",
    "a backslash": "localhost\\",
    "percent": "%6cocalhost",
    "two names": "localhost,evil.com",
    "two names and a blank": "localhost, localhost",
    "a foreign site": "evil.com",
    "a foreign site with a port": "evil.com:8787",
}


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("name", OWN)
def test_names_of_this_machine(name, port):
    assert is_loopback_host([name + port])


@pytest.mark.parametrize("host", OTHERS.values(), ids=OTHERS.keys())
def test_other_names_and_malformed_ones(host):
    assert not is_loopback_host([host])


@pytest.mark.parametrize(
    "lines", [[], ["localhost", "localhost"], ["localhost", "evil.com"], ["evil.com", "localhost"]]
)
def test_there_must_be_one_line(lines):
    assert not is_loopback_host(lines)
