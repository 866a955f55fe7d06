"""`privot account …` answers with the promised numbers; anything else is one sentence with the right exit code."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privot.accounting import projection
from privot.accounting.comparison import AccountantComparison, AccountantCurve
from privot.cli import run
from privot.cli.printing import charts
from privot.guarantee import Adjacency, Standing

PROJECTION = "account projection --dim 784 --slices 200 --records 10000 --batch 128 --epochs 100 --delta 1e-5".split()


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert run(list(arguments)) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return json.loads(printed.out)


@pytest.mark.slow
def test_projection_answers_with_sigma_epsilon_sampling_and_standing(capsys):
    found = answer(
        capsys, *PROJECTION, "--epsilon", "10", "--adjacency", "replace-one", "--frame", "independent", "--json"
    )
    assert found["sigma"] <= 0.76
    assert found["standing"] == "proven"
    assert found["adjacency"] == "replace-one"
    assert found["steps"] == math.ceil(100 * 10000 / 128)
    assert "fixed-size" in found["sampling"]
    assert found["epsilon"] <= 10
    frames = answer(capsys, *PROJECTION, "--epsilon", "10", "--adjacency", "replace-one", "--json")
    assert frames["sigma"] < found["sigma"]
    # the other way round: the σ that was answered costs the ε that was answered
    back = answer(capsys, *PROJECTION, "--sigma", repr(frames["sigma"]), "--adjacency", "replace-one", "--json")
    assert back["epsilon"] == pytest.approx(frames["epsilon"], rel=1e-12)


def test_bernstein_for_one_step_is_the_papers_formula(capsys):
    d, k, delta, sigma = 784, 200, 1e-5, 4.74
    found = answer(
        capsys,
        *f"account projection --dim {d} --slices {k} --sigma {sigma} --delta {delta} --bound bernstein".split(),
        *"--frame independent --adjacency replace-one --json".split(),
    )
    # Proposition 2 with w(k, δ/2), at the best α, on a grid fine enough for 1e-9
    log = math.log(2 / delta)
    w = k / d + 2 / 3 * log + 2 / d * math.sqrt(k * (d - 1) / (d + 2) * log)
    best = 1 + math.sqrt(2 * sigma**2 * log / w)
    assert found["epsilon"] == pytest.approx(best * w / (2 * sigma**2) + log / (best - 1), rel=1e-9)
    nearby = min(a * w / (2 * sigma**2) + log / (a - 1) for a in (best * (1 + t / 1000) for t in range(-500, 500)))
    assert found["epsilon"] <= nearby + 1e-12


def test_what_is_clipped_is_stated_because_the_noise_depends_on_it(capsys):
    asked = "account gradient --sigma 2 --delta 1e-5 --adjacency add-remove --json".split()
    assert run(asked) == 2
    assert "--clipping" in capsys.readouterr().err
    found = {how: answer(capsys, *asked, "--clipping", how)["sensitivity"] for how in ("matrix", "per-example")}
    assert found == {"matrix": 2.0, "per-example": 1.0}
    assert answer(capsys, *asked, "--clipping", "row", "--rows", "25")["sensitivity"] == 10.0
    for wrong in (["row"], ["matrix", "--rows", "25"], ["whole"]):
        assert run([*asked, "--clipping", *wrong]) == 2


def test_pure_privacy_is_planned_for_laplace_noise_and_refused_for_gaussian_noise(capsys):
    asked = "account laplace --epsilon 2 --sensitivity 3 --releases 4 --adjacency add-remove --json"
    plan = answer(capsys, *asked.split())
    assert plan["delta"] == 0.0
    assert plan["scale"] == pytest.approx(6.0, rel=1e-9)
    assert 2.0 * (1 - 1e-9) <= plan["epsilon"] <= 2.0
    assert plan["standing"] == "proven"
    assert run("account laplace --epsilon 2 --adjacency add-remove".split()) == 0
    assert "scale" in capsys.readouterr().out
    assert run("account embedding --epsilon 1 --delta 0 --adjacency add-remove".split()) == 2
    assert "Laplace" in capsys.readouterr().err


def test_gradient_and_embedding_answer_with_sampling_and_sensitivity(capsys):
    gradient = answer(
        capsys,
        *"account gradient --records 60000 --batch 50 --steps 1000 --clip 0.5 --epsilon 10 --delta 1e-5".split(),
        *"--clipping matrix --adjacency add-remove --json".split(),
    )
    assert gradient["sampling"].startswith("Poisson")
    assert gradient["sensitivity"] == 1.0
    one = answer(capsys, *"account embedding --epsilon 1 --delta 1e-5 --adjacency add-remove --json".split())
    two = answer(capsys, *"account embedding --epsilon 1 --delta 1e-5 --adjacency replace-one --json".split())
    assert two["sigma"] == pytest.approx(2 * one["sigma"], rel=1e-3)


def test_steps_or_batch_are_computed_when_everything_else_is_given(capsys):
    common = "--dim 64 --slices 64 --records 1000 --delta 1e-5 --adjacency replace-one --epsilon 4 --sigma 3 --json"
    steps = answer(capsys, *f"account projection {common} --batch 50".split())
    assert steps["epsilon"] <= 4
    terms = {"adjacency": "replace-one", "delta": 1e-5, "sigma": 3.0, "records": 1000}
    more = projection(64, 64, batch=50, steps=math.ceil(steps["steps"] * 1.002) + 1, **terms)
    assert more.guarantee.epsilon() > 4
    batch = answer(capsys, *f"account projection {common} --steps 2000".split())
    assert batch["epsilon"] <= 4
    assert projection(64, 64, batch=batch["batch"] + 1, steps=2000, **terms).guarantee.epsilon() > 4


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("--dim 784 --slices 200 --epsilon 1 --delta 1e-5", 2),  # no adjacency: there is no default
        ("--dim 784 --slices 200 --epsilon 1 --delta 1e-5 --adjacency sideways", 2),
        ("--dim 784 --slices 200 --epsilon -1 --delta 1e-5 --adjacency replace-one", 2),
        ("--dim 784 --slices 200 --epsilon nan --delta 1e-5 --adjacency replace-one", 2),
        ("--dim 784 --slices 200 --epsilon 1 --delta 1 --adjacency replace-one", 2),
        ("--dim 784 --slices 200 --epsilon 1 --delta 0 --adjacency replace-one", 2),
        ("--dim 0 --slices 200 --epsilon 1 --delta 1e-5 --adjacency replace-one", 2),
        ("--dim 784 --slices 200 --delta 1e-5 --adjacency replace-one", 2),
        ("--dim 784 --slices 200 --sigma 0 --delta 1e-5 --adjacency replace-one", 2),
        ("--dim 784 --slices 200 --sigma inf --delta 1e-5 --adjacency replace-one", 2),
        ("--dim 784 --slices 200 --sigma 1 --delta 1e-5 --adjacency replace-one --batch 5", 2),
        ("--dim 784 --slices 200 --sigma 1 --delta 1e-5 --adjacency replace-one --batch 9 --records 5", 2),
        ("--dim 784 --slices 200 --sigma 1 --delta 1e-5 --adjacency add-remove", 5),
        ("--dim 784 --slices 200 --sigma 1 --delta 1e-5 --adjacency add-remove --batch 5 --records 50", 5),
        ("--dim 784 --slices 200 --sigma 1 --delta 1e-5 --adjacency replace-one --bound bernstein", 5),
        ("--dim 784 --slices 200 --sigma 1 --delta 1e-5 --adjacency replace-one --unknown", 2),
    ],
)
def test_wrong_options_are_refused_in_one_sentence_with_the_right_exit_code(capsys, arguments, code):
    assert run(["account", "projection", *arguments.split()]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "Traceback" not in printed.err


NUMBERS = st.one_of(
    st.integers(-3, 5).map(str),
    st.floats().map(repr),
    st.sampled_from(["1e-400", "1e400", "-0.0", "", "ten", "0x10", "1e-12", "10000000", "1e7", "²", "٣"]),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    command=st.sampled_from(["projection", "gradient", "embedding"]),
    options=st.lists(
        st.tuples(
            st.sampled_from(
                "--dim --slices --epsilon --sigma --delta --records --batch --steps --clip --norm --releases".split()
            ),
            NUMBERS,
        ),
        max_size=6,
    ),
    adjacency=st.sampled_from(["replace-one", "add-remove", "REPLACE_ONE", "", "none"]),
)
def test_any_input_ends_in_an_answer_or_in_one_sentence(capsys, command, options, adjacency):
    arguments = ["account", command, "--adjacency", adjacency, "--json"]
    for name, value in options:
        arguments.append(f"{name}={value}")
    code = run(arguments)
    printed = capsys.readouterr()
    if code == 0:
        found = json.loads(printed.out)
        assert found["standing"] in ("proven", "asymptotic")
        assert found["epsilon"] is None or found["epsilon"] >= 0
    else:
        assert code in (2, 4, 5, 6)
        assert printed.out == ""
        assert printed.err.count("\n") == 1
        assert printed.err.startswith("privot: ")


@pytest.mark.slow
def test_compare_draws_and_orders_the_accountants(capsys, tmp_path):
    drawn = tmp_path / "compare.png"
    found = answer(
        capsys,
        *"account compare --dim 100 --slices 50 --records 1000 --batch 50 --steps 200 --delta 1e-5".split(),
        *f"--adjacency replace-one --points 4 --out {drawn} --json".split(),
    )
    curves = {c["accountant"]: c for c in found["curves"]}
    frames, exact = curves["exact, orthogonal frames"], curves["exact, independent directions"]
    renyi, bernstein = curves["Rényi, independent directions"], curves["Bernstein, as published"]
    for a, b, c, d in zip(*(x["epsilon"] for x in (frames, exact, renyi, bernstein)), strict=True):
        assert a <= b * (1 + 1e-3) <= c * (1 + 2e-3) < d * (1 + 3e-3)
    assert curves["CLT, as published"]["standing"] == "asymptotic"
    assert drawn.read_bytes().startswith(b"\x89PNG")
    gradients = "account compare --delta 1e-5 --adjacency add-remove --mechanism gradient --points 3".split()
    assert run([*gradients, "--clipping", "matrix"]) == 0
    assert run(gradients) == 2
    assert "composed privacy losses" in capsys.readouterr().out
    assert run(f"account compare --delta 1e-5 --adjacency replace-one --out {tmp_path}/x.txt".split()) == 2


def test_only_debug_shows_a_traceback():
    from privot.errors import UsageError

    arguments = "account embedding --epsilon -1 --delta 1e-5 --adjacency add-remove".split()
    assert run(arguments) == 2
    with pytest.raises(UsageError):
        run(arguments, debug=True)


def test_a_chart_is_scaled_to_the_proven_curves(monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(charts, "save_figure", lambda figure, out: drawn.append(figure))
    curves = (
        AccountantCurve("ours", Standing.PROVEN, (100.0, 1.0)),
        AccountantCurve("the same", Standing.PROVEN, (100.0, 1.0)),
        AccountantCurve("a limit", Standing.ASYMPTOTIC, (1e172, 1.0)),
    )
    found = AccountantComparison(Adjacency.ADD_REMOVE, "none", 1e-5, 1, (0.1, 1.0), curves)
    charts.draw_comparison(found, tmp_path / "chart.png")
    (axes,) = drawn[0].axes
    assert axes.get_ylim()[1] <= 1000.0
    assert axes.lines[0].get_linewidth() > axes.lines[1].get_linewidth()
