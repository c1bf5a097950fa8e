"""The paper's theorems, algorithms and figures by the numbers that a reader of the PDF sees.

Records keep the LaTeX labels of *Replicable Reinforcement Learning* (Eaton, Hussing, Kearns and Sorrell, 2023,
arXiv:2305.15284), because labels stay when a theorem moves. People read numbers, which are put beside the labels when a
text is shown. ``docs/paper.md`` says how the numbers were found. The PDF prints two lemmas, on the convergence of
Phased Q-learning and of RepRMAX, without heading and number: they are named by their sections here, because other
lemmas are called 4.1 and 4.2.
"""

import re

NUMBERS = {
    "sec:intro": "Section 1",
    "sec:prelim": "Section 2",
    "def:replicability": "Definition 2.3",
    "thm:rep-sq": "Theorem 2.1",
    "sec:rep-rl": "Section 3",
    "def:pi-replicability": "Definition 3.1",
    "fig:policy_difference": "Figure 1",
    "sec:algos": "Section 4",
    "lem:phasedvi-convergence": "the lemma of Section 4.1",
    "alg:rep-phased": "Algorithm 1",
    "thm:rpvi": "Theorem 4.1",
    "alg:repmax": "Algorithm 2",
    "alg:rep-update-known": "Algorithm 3",
    "lem:repmax-convergence": "the lemma of Section 4.2",
    "lem:rmax-progress": "Lemma 4.1",
    "lem:simulation": "Lemma 4.2",
    "thm:repmax-replicable": "Theorem 4.2",
    "sec:experiments": "Section 5",
    "fig:exp_results": "Figure 2",
    "sec:related": "Section 6",
    "sec:conclusion": "Section 7",
    "app:def": "Appendix A",
    "def:V-replicability": "Definition A.1",
    "def:MDP-replicability": "Definition A.2",
    "app:phasedvi-convergence": "Appendix B.1",
    "app:rpvi-prf": "Appendix B.2",
    "app:rep-app-mpd": "Appendix B.2.1",
    "alg:rep-mdp": "Algorithm 4",
    "obs:rep-mdp": "Observation B.1",
}
_LABEL = re.compile(rf"(?<![\w:-])(?:{'|'.join(map(re.escape, NUMBERS))})(?![\w:-])")


def cited(text: str) -> str:
    """Return a text with the number of the PDF beside every label of the paper.

    Within parentheses, commas set the label apart. A label that the paper does not have stays as it is.

    >>> cited("proved (the sharp form of thm:rpvi): two runs have the same Q")
    'proved (the sharp form of Theorem 4.1, thm:rpvi): two runs have the same Q'
    """

    def beside(found: re.Match[str]) -> str:
        label, before, after = found[0], text[: found.start()], text[found.end() :]
        if before.count("(") <= before.count(")"):
            return f"{NUMBERS[label]} ({label})"
        closing = "," if after[:1] == " " and after[1:2].isalnum() else ""
        return f"{NUMBERS[label]}, {label}{closing}"

    return _LABEL.sub(beside, text)
