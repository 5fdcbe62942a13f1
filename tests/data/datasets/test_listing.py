"""The list of datasets shows the state of their files in the data directory."""

from cs336_basics.data.datasets.fetch import fetch_split
from cs336_basics.data.datasets.listing import list_files
from tests.data.datasets.web_server import PACKED, TEXT


def status(directory, dataset, split, **settings):
    (found,) = [
        file
        for file in list_files(directory, **settings)
        if (file.dataset, file.split) == (dataset, split)
    ]
    return found


def test_a_fetched_text_is_listed_and_verified(server, tmp_path):
    server.offer("owt_valid.txt.gz", PACKED)
    path, _ = fetch_split("owt", "valid", tmp_path, source=server.url)
    assert status(tmp_path, "owt", "valid").note == "present"
    found = status(tmp_path, "owt", "valid", verify=True)
    assert (found.note, found.verified) == ("present, verified", True)
    assert (found.path, found.found_bytes) == (str(path), len(TEXT))
    path.write_bytes(TEXT[:-1] + b"?")
    found = status(tmp_path, "owt", "valid", verify=True)
    assert found.note == "present, but with the wrong SHA-256"
    assert found.verified is False


def test_extracts_compressed_files_and_unfinished_downloads_are_listed(server, tmp_path):
    (tmp_path / "tinystories_train.txt").write_bytes(b"an extract")
    (tmp_path / "TinyStoriesV2-GPT4-valid.txt.part").write_bytes(b"1234")
    (tmp_path / "owt_train.txt.gz").write_bytes(b"12345")
    (tmp_path / "owt_valid.txt.gz.part").write_bytes(b"123456")
    (tmp_path / "sample_valid.txt").write_bytes(b"1234567")
    found = {(file.dataset, file.split): file for file in list_files(tmp_path, verify=True)}
    assert {
        key: (file.found_bytes, file.note) for key, file in found.items() if file.found_bytes
    } == {
        ("sample", "valid"): (7, "present, but with the wrong size: 7 bytes"),
        ("tinystories", "train"): (10, "tinystories_train.txt is present, 10 bytes"),
        ("tinystories", "valid"): (4, "download interrupted after 4 bytes"),
        ("owt", "train"): (5, "only owt_train.txt.gz is present"),
        ("owt", "valid"): (6, "download interrupted after 6 bytes"),
    }
    verified = {key for key, file in found.items() if file.verified is not None}
    assert verified == {("sample", "valid")}
    assert found["sample", "valid"].verified is False
