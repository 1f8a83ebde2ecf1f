"""The demonstration follows any recorded chain, and does not claim what is not so."""

import shutil

import pytest

from deltaic.cli.demo import main


@pytest.fixture
def chain(project_root, tmp_path):
    shutil.copytree(project_root / "tests/golden/hollow/scalars", tmp_path / "chain")
    return tmp_path / "chain"


@pytest.mark.parametrize("case", ["scalars", "collections", "hash-keys", "shards"])
def test_every_golden_chain_can_be_walked_forward_and_back(case, project_root, capsys):
    folder = project_root / "tests/golden/hollow" / case
    assert main(str(folder)) == 0
    out = capsys.readouterr().out
    steps = [path.name for path in folder.iterdir() if "delta-" in path.name]
    assert steps and all(f"{step}: " in out for step in steps)
    assert out.count("the same as snapshot-") == len(steps)
    assert "now at version 1:" in out


def test_a_delta_that_leads_elsewhere_is_not_called_the_same(chain, capsys):
    shutil.copy(chain / "snapshot-1", chain / "snapshot-2")
    assert main(str(chain)) == 1
    captured = capsys.readouterr()
    assert "delta-1-2 does not lead to the state of snapshot-2" in captured.err
    assert "the same as snapshot-2" not in captured.out


def test_a_chain_without_deltas_is_only_loaded(chain, capsys):
    for path in chain.glob("*delta-*"):
        path.unlink()
    assert main(str(chain)) == 0
    assert "now at version 1:" in capsys.readouterr().out


def test_a_torn_delta_is_one_line_and_exit_code_1(chain, capsys):
    delta = chain / "delta-1-2"
    delta.write_bytes(delta.read_bytes()[:40])
    assert main(str(chain)) == 1
    assert capsys.readouterr().err.startswith("deltaic: ")


def test_a_folder_without_a_snapshot_says_so(tmp_path, capsys):
    assert main(str(tmp_path)) == 1
    assert "there is no snapshot" in capsys.readouterr().err
