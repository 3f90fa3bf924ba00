"""``hashlearn recommend``: the command it names works."""


def test_it_names_a_command_that_works(run, folder):
    outcome = run(
        "recommend", "vectors.npy", "--labels", "y.npy", "--bytes", 1, "--plot", "plot.svg", "--json", "r.json"
    )
    assert outcome.code == 0, outcome.err
    assert (folder / "plot.svg").read_bytes().startswith(b"<?xml")
    lines = [line.strip() for line in outcome.out.splitlines()]
    command = next(line for line in lines if line.startswith("hashlearn fit"))
    assert run(*command.split()[1:]).code == 0


def test_without_labels_it_says_what_is_missing(run, folder):
    assert "By meaning: not judged, because that needs --labels" in run("recommend", "vectors.npy", "--bytes", 1).out


def test_a_plot_over_an_input_is_refused(refused, folder):
    assert "--plot" in refused("recommend", "vectors.npy", "--plot", "vectors.npy")
