"""Samples on a device by size of batch: the script runs, with little work on the twin of a GPU."""


def test_the_script_measures_batches(import_script, city, capsys):
    script = import_script("device_batches")
    script.main(["--data", str(city), "--device", "cpu", "--sizes", "2", "3", "--threads", "0", "1", "--batches", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("| 0 threads | 1 threads |")
    assert [line.split("|")[2].strip() for line in lines[2:]] == ["2", "3"] * 3
