"""Every case of a folder of golden data becomes a test: ``--golden-dir`` names the folder."""

from pathlib import Path

import pytest

from tests.golden.cases import DATA, read_cases


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden-dir", type=Path, default=DATA, help="folder of golden cases to try")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an argument ``policy_case``, ``logits_case`` or ``decode_case`` runs once a case."""
    # The default matters where pytest was started on a folder above: it knows no option of this one then.
    folder = metafunc.config.getoption("--golden-dir", default=DATA)
    for kind in ("logits", "decode", "policy"):
        if f"{kind}_case" in metafunc.fixturenames:
            cases = list(read_cases(folder, kind))
            metafunc.parametrize(f"{kind}_case", cases, ids=[case.id for case in cases])
