"""Where did [CLS] look, and did the answer depend on it? Five maps of one text, and a measure of which to believe.

    attention             the [CLS] row of one layer, per head and on average: where information flowed, no more
    rollout               attention multiplied through all layers, residuals included (Abnar & Zuidema 2020)
    gradient × input      the score's slope at the word rows, times the rows: what an infinitesimal change would do
    integrated gradients  the same slope averaged on the way from [MASK]s to the text (Sundararajan et al. 2017)
    occlusion             the token is taken out and the text predicted again: what a real change does

Attention and rollout cannot be negative: they say "looked at", never "spoke against". Whether a map shows what the
answer rests on is measured, not assumed: take the tokens out in the map's order and see how fast the answer falls.

The score explained is the log-odds of the predicted label, z_label − log Σ_others exp z (multi-label: its logit): a
probability near 1 hardly moves whatever is done, its log-odds do.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Sequence

import numpy as np
import torch

from .cli import UserError, progress
from .files import write_atomic
from .predictor import Predictor, Window, token_budget_batches

if TYPE_CHECKING:
    from torch import Tensor

METHODS = ("attention", "rollout", "gradient × input", "integrated gradients", "occlusion")
UNSIGNED = ("attention", "rollout")  # compared with the size of the occlusion effect, not with its sign
STEPS = (16, 32, 64, 128)            # points of the integral; more are taken until it is complete
INCOMPLETE = 0.05                    # accepted gap, as a share of the difference to be explained

LogitsOf = Callable[[Sequence[Window]], np.ndarray]


# ── a text as the model reads it ─────────────────────────────────────────────────────────────────────────────────

@dataclass
class Reading:
    """One window of tokens, the prediction for it, and the label that is explained."""
    window: Window
    tokens: list[str]        # S, for display
    special: np.ndarray      # (S,) bool: [CLS], [SEP]
    probabilities: np.ndarray  # (C,)
    target: int              # class index explained: the predicted label (multi-label: the likeliest)
    total: int               # content tokens of the whole text; more than the window holds if it was cut

    @property
    def content(self) -> np.ndarray:
        """Positions of the tokens of the text itself."""
        return np.flatnonzero(~self.special)


def read(predictor: Predictor, text: str, pair: str | None = None, max_tokens: int | None = None,
         logits_of: LogitsOf | None = None) -> Reading:
    """Tokenise and predict one text, cut to `max_tokens` if given. Under --truncate chunk: its first window.

    Raises UserError if the model wants a pair and there is none, or max_tokens leaves no room.
    """
    predictor.check_pair(pair is not None)
    tokenizer = predictor.tokenizer
    ids, *more = tokenizer.ids([text] if pair is None else [text, pair])
    room = predictor.max_len if max_tokens is None else min(predictor.max_len, max_tokens)
    truncate = "right" if predictor.truncate == "chunk" else predictor.truncate
    window = Window(*(np.asarray(x, np.int64) for x in tokenizer.build(ids, *more, max_len=room, truncate=truncate)))
    logits = (logits_of or predictor.forward)([window])
    probabilities = predictor.to_probabilities(logits)[0]
    target = int(probabilities.argmax() if predictor.multi_label else predictor.decide(probabilities[None])[0])
    return Reading(window, tokenizer.tokens(window.input_ids), _special(tokenizer, window, bool(more)),
                   probabilities, target, len(ids) + sum(map(len, more)))


def _special(tokenizer: Any, window: Window, is_pair: bool) -> np.ndarray:
    """(S,) bool: what `build` put around the text. By place, not by id: a user may type "[SEP]"."""
    S, layout = len(window.input_ids), tokenizer.layout
    special = np.zeros(S, bool)
    special[:len(layout.before)] = True
    special[S - len(layout.after):] = True
    if is_pair:
        special |= window.input_ids == tokenizer.sep_id
    return special


def log_odds(predictor: Predictor, logits: np.ndarray | Tensor, target: int) -> Tensor:
    """(n,) log-odds of class `target` from logits (n,C), after temperature. Differentiable if the logits are."""
    z = torch.as_tensor(logits) / predictor.temperature
    if predictor.multi_label or z.shape[1] == 1:
        return z[:, target]
    others = torch.cat([z[:, :target], z[:, target + 1:]], dim=1)
    return z[:, target] - others.logsumexp(dim=1)


def score(predictor: Predictor, windows: Sequence[Window], target: int, logits_of: LogitsOf | None = None) -> np.ndarray:
    """(n,) log-odds of `target` for each window, in batches under the predictor's token budget."""
    logits = _all_logits(predictor, windows, logits_of)
    return log_odds(predictor, logits.astype(np.float64), target).numpy()


def _all_logits(predictor: Predictor, windows: Sequence[Window], logits_of: LogitsOf | None) -> np.ndarray:
    if logits_of is not None:
        return np.asarray(logits_of(windows))
    logits = np.zeros((len(windows), len(predictor.labels)), np.float32)
    for rows in token_budget_batches(np.array([len(w.input_ids) for w in windows]), predictor.batch_tokens):
        logits[rows] = predictor.forward([windows[i] for i in rows])
    return logits


def without(window: Window, positions: np.ndarray) -> Window:
    """The window with some tokens taken out; what follows moves up."""
    return Window(np.delete(window.input_ids, positions), np.delete(window.token_type_ids, positions))


# ── the five maps, each (S,) over the tokens of a reading ────────────────────────────────────────────────────────

def attentions(predictor: Predictor, reading: Reading) -> np.ndarray:
    """(L,H,S,S) attention weights of the window; [l, h, i] sums to 1: how token i divides its look."""
    with torch.inference_mode():
        out = predictor.classifier.encoder(**_batch(predictor, reading.window), output_attentions=True)
    return torch.stack(out.attentions)[:, 0].float().cpu().numpy()


def rollout(weights: np.ndarray) -> np.ndarray:
    """(S,) how much of each token reaches the last [CLS], from attention weights (L,H,S,S).

    A_l = ½ (mean over heads + I), for the residual connection; rollout = A_L · … · A_1, first row. Abnar & Zuidema
    2020, §3. It sums to 1.
    """
    row = np.eye(weights.shape[-1])[0]
    for layer in weights[::-1]:  # from the last layer down, only the row that is wanted
        row = 0.5 * (row @ layer.mean(0) + row)
    return row


def _batch(predictor: Predictor, window: Window) -> dict[str, Tensor]:
    return {name: t.to(predictor.device) for name, t in predictor.tokenizer.pad([window]).items()}


def _slope(predictor: Predictor, reading: Reading, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Log-odds (n,) and their gradients (n,S,D) at word rows (n,S,D) standing in for the window's own."""
    rows = rows.detach().requires_grad_(True)
    batch = _batch(predictor, reading.window)
    n = rows.shape[0]
    logits = predictor.classifier(inputs_embeds=rows, attention_mask=batch["attention_mask"].expand(n, -1),
                                  token_type_ids=batch["token_type_ids"].expand(n, -1))
    value = log_odds(predictor, logits.float(), reading.target)
    # The rows of a batch do not touch each other, so the gradient of the sum holds each one's own.
    return value.detach(), torch.autograd.grad(value.sum(), rows)[0]


def _word_rows(predictor: Predictor, ids: np.ndarray) -> Tensor:
    table = predictor.classifier.encoder.embeddings.word_embeddings
    return table(torch.as_tensor(ids, device=predictor.device)).detach()


def gradient_times_input(predictor: Predictor, reading: Reading) -> np.ndarray:
    """(S,) slope of the log-odds at each word row, times the row."""
    rows = _word_rows(predictor, reading.window.input_ids)[None]
    _, gradient = _slope(predictor, reading, rows)
    return (gradient * rows).sum(-1)[0].double().cpu().numpy()


@dataclass
class Integral:
    """Integrated gradients. Completeness: `attribution.sum()` should equal `difference`; `gap` is by how much not."""
    attribution: np.ndarray  # (S,)
    difference: float        # log-odds of the text minus log-odds of the baseline
    gap: float
    steps: int

    @property
    def complete(self) -> bool:
        return abs(self.gap) <= INCOMPLETE * abs(self.difference) + 1e-3


def integrated_gradients(predictor: Predictor, reading: Reading) -> Integral:
    """(x − x₀) · ∫₀¹ ∇f(x₀ + a (x − x₀)) da per token; x₀ has [MASK] at every content token (Sundararajan et al. 2017).

    Gauss–Legendre points, which for a smooth curve need far fewer than equal steps; doubled until the parts add up to
    f(x) − f(x₀) within 5 %, or 128 are used.
    """
    ids = reading.window.input_ids.copy()
    stand_in = predictor.tokenizer.mask_id
    ids[reading.content] = predictor.tokenizer.pad_id if stand_in is None else stand_in
    x, x0 = _word_rows(predictor, reading.window.input_ids), _word_rows(predictor, ids)
    at_ends, _ = _slope(predictor, reading, torch.stack([x0, x]))
    difference = float(at_ends[1] - at_ends[0])
    block = max(1, predictor.batch_tokens // len(ids))
    for steps in STEPS:
        points, weights = np.polynomial.legendre.leggauss(steps)
        points, weights = (points + 1) / 2, weights / 2  # from [-1, 1] to [0, 1]
        mean = torch.zeros_like(x)
        for start in range(0, steps, block):
            a = torch.as_tensor(points[start:start + block], dtype=x.dtype, device=x.device)[:, None, None]
            w = torch.as_tensor(weights[start:start + block], dtype=x.dtype, device=x.device)[:, None, None]
            mean += (w * _slope(predictor, reading, x0 + a * (x - x0))[1]).sum(0)
        attribution = ((x - x0) * mean).sum(-1).double().cpu().numpy()
        found = Integral(attribution, difference, float(attribution.sum() - difference), steps)
        if found.complete:
            break
    return found


def occlusion(predictor: Predictor, reading: Reading, logits_of: LogitsOf | None = None) -> tuple[np.ndarray, np.ndarray]:
    """What the answer loses when a token is taken out: (S,) in log-odds and (S,) in probability; 0 at special tokens."""
    S, content = len(reading.tokens), reading.content
    windows = [reading.window, *(without(reading.window, i) for i in content)]
    logits = _all_logits(predictor, windows, logits_of)
    value = log_odds(predictor, logits.astype(np.float64), reading.target).numpy()
    probability = predictor.to_probabilities(logits)[:, reading.target]
    effect, in_probability = np.zeros(S), np.zeros(S)
    effect[content], in_probability[content] = value[0] - value[1:], probability[0] - probability[1:]
    return effect, in_probability


# ── which map to believe ─────────────────────────────────────────────────────────────────────────────────────────

def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Rank correlation in [-1,1]; equal values share their mean rank; 0.0 where one side is constant."""
    a, b = _ranks(a), _ranks(b)
    a, b = a - a.mean() if len(a) else a, b - b.mean() if len(b) else b
    norm = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / norm) if norm > 0 else 0.0


def _ranks(x: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def deletion_curves(predictor: Predictor, reading: Reading, orders: Sequence[np.ndarray], points: int = 10) -> np.ndarray:
    """(len(orders), points+1) probability of the label after the first 0 %, 10 %, … 100 % of an order are taken out.

    `orders`: positions of the content tokens, the first to go first. A faithful map makes the curve fall at once.
    """
    n = len(reading.content)
    counts = np.round(np.linspace(0, n, points + 1)).astype(int)
    windows = [without(reading.window, order[:k]) for order in orders for k in counts]
    probabilities = predictor.to_probabilities(_all_logits(predictor, windows, None))[:, reading.target]
    return probabilities.reshape(len(orders), points + 1)


def area(curve: np.ndarray) -> np.ndarray:
    """Area under curves (…, points+1) over [0,1] by the trapezoid rule."""
    return (curve[..., 1:] + curve[..., :-1]).mean(-1) / 2


@dataclass
class Maps:
    """All maps of one reading. `weights` (L,H,S,S); `by_method` name → (S,)."""
    reading: Reading
    weights: np.ndarray
    by_method: dict[str, np.ndarray]
    in_probability: np.ndarray  # occlusion, as a loss of probability
    integral: Integral


def all_maps(predictor: Predictor, reading: Reading, layer: int | None = None) -> Maps:
    """The five maps; `attention` is the mean over the heads of `layer` (1…L, the last if None)."""
    weights = attentions(predictor, reading)
    effect, in_probability = occlusion(predictor, reading)
    integral = integrated_gradients(predictor, reading)
    mean = weights[-1 if layer is None else layer - 1, :, 0].mean(0)
    return Maps(reading, weights, dict(zip(METHODS, (mean, rollout(weights), gradient_times_input(predictor, reading),
                                                     integral.attribution, effect))), in_probability, integral)


def faithful(predictor: Predictor, maps: Maps, seed: int = 0, random_orders: int = 5) -> dict[str, dict[str, float]]:
    """Per method, and for random orders: {"deletion_area", "spearman"} on one text.

    deletion_area: lower is more faithful; compare with "random". spearman: with the occlusion effect (with its size,
    for maps that have no sign); nothing is measured on special tokens, which cannot be taken out.
    """
    content, effect = maps.reading.content, maps.by_method["occlusion"]
    rng = np.random.default_rng(seed)
    orders = [content[np.argsort(-m[content], kind="stable")] for m in maps.by_method.values()]
    orders += [rng.permutation(content) for _ in range(random_orders)]
    areas = area(deletion_curves(predictor, maps.reading, orders))
    found = {}
    for (name, values), a in zip(maps.by_method.items(), areas):
        asked = np.abs(effect) if name in UNSIGNED else effect
        found[name] = {"deletion_area": float(a), "spearman": spearman(values[content], asked[content])}
    return found | {"random": {"deletion_area": float(areas[-random_orders:].mean()), "spearman": 0.0}}


@dataclass
class Faithfulness:
    """The methods compared on a sample of texts: `rows` per method, best first, and the same in words."""
    rows: list[dict[str, Any]]
    lines: list[str]
    markdown: str
    figures: dict[str, Any]


def faithfulness(predictor: Predictor, texts: Sequence[str], pairs: Sequence[str] | None = None, sample: int = 12,
                 max_tokens: int = 64, seed: int = 0, quiet: bool = True) -> Faithfulness:
    """Compare the maps on up to `sample` of the texts (drawn by `seed`), each cut to `max_tokens`."""
    chosen = np.sort(np.random.default_rng(seed).permutation(len(texts))[:sample])
    tables, complete = [], 0
    for i in progress(chosen, desc="faithfulness", unit="text", quiet=quiet):
        reading = read(predictor, texts[i], None if pairs is None else pairs[i], max_tokens)
        if len(reading.content) < 2:  # nothing to rank
            continue
        maps = all_maps(predictor, reading)
        complete += maps.integral.complete
        tables.append(faithful(predictor, maps, seed))
    rows = [{"method": name, "deletion_area": float(np.mean([t[name]["deletion_area"] for t in tables])),
             "spearman": float(np.mean([t[name]["spearman"] for t in tables])),
             "better_than_random": int(sum(t[name]["deletion_area"] < t["random"]["deletion_area"] for t in tables))}
            for name in (tables[0] if tables else ())]
    rows.sort(key=lambda r: r["deletion_area"])
    figures = {"texts": len(tables), "max_tokens": max_tokens, "methods": rows, "integrals_complete": complete}
    return Faithfulness(rows, *_faithfulness_words(rows, len(tables), complete), figures)


def _faithfulness_words(rows: list[dict], texts: int, complete: int) -> tuple[list[str], str]:
    from .report import table
    if not rows:
        return ["No text is long enough to compare the maps."], "No text is long enough to compare the maps.\n"
    lines = [f"Which map to believe (mean of {texts} texts; deletion area: lower is more faithful):"]
    lines += [f"  {r['method']:<21} area {r['deletion_area']:.3f}   rank correlation with occlusion {r['spearman']:+.2f}   "
              f"better than random on {r['better_than_random']}/{texts}" for r in rows if r["method"] != "random"]
    random = next(r for r in rows if r["method"] == "random")
    lines.append(f"  {'random order':<21} area {random['deletion_area']:.3f}")
    words = table(["map", "deletion area", "better than random", "rank correlation with occlusion"],
                  [[r["method"], f"{r['deletion_area']:.3f}", f"{r['better_than_random']}/{texts}", f"{r['spearman']:+.2f}"]
                   if r["method"] != "random" else ["*random order*", f"{r['deletion_area']:.3f}", "–", "–"] for r in rows])
    note = ("Deletion area: tokens are taken out in the map's order, and the probability of the label is averaged on the way "
            "from the whole text to none; lower means that the map names first what the answer rests on. A map that does "
            "not beat the random order shows nothing of that. Attention and rollout have no sign and are correlated with "
            f"the size of the occlusion effect. Integrated gradients were complete within 5 % on {complete} of {texts}.")
    return lines, f"{words}\n\n{note}\n"


# ── one text for the server ──────────────────────────────────────────────────────────────────────────────────────

def explain(predictor: Predictor, text: str, max_tokens: int = 128, pair: str | None = None,
            logits_of: LogitsOf | None = None, on_model: Callable[[Callable], Any] = lambda work: work()) -> dict[str, Any]:
    """Attention and measured effects of one text, as plain Python values.

    {"label", "scores", …} as `Predictor.answer` gives them for the (cut) text, and: "tokens" (S strings), "special"
    (S bools), "attention" [layer][head][S] of the [CLS] row, "effect" (S: probability the label loses without the
    token; 0 at special tokens), "effect_log_odds" (S), "cut" (whether text was left out). `logits_of(windows)` may
    stand in for the predictor's own batched forward: one call for the text, one for all its occlusions;
    `on_model(work)` runs `work()` where the model may be used, and gives back its result.
    """
    reading = read(predictor, text, pair, max_tokens, logits_of)
    effect, in_probability = occlusion(predictor, reading, logits_of)
    return {"label": predictor.labels[reading.target], **predictor.answer(reading.probabilities),
            "tokens": reading.tokens, "special": reading.special.tolist(),
            "attention": on_model(lambda: attentions(predictor, reading))[:, :, 0].astype(float).tolist(),
            "effect": in_probability.tolist(), "effect_log_odds": effect.tolist(),
            "cut": bool(len(reading.content) < reading.total)}


# ── one text for a person ────────────────────────────────────────────────────────────────────────────────────────

@dataclass
class Inspection:
    """What `--inspect` shows: `lines` for the terminal, `markdown` for the report, and the heatmap if a folder was given."""
    lines: list[str]
    markdown: str
    png: Path | None
    figures: dict[str, Any]


def inspect(predictor: Predictor, text: str, folder: str | Path | None = None, layer: int | None = None,
            pair: str | None = None, seed: int = 0) -> Inspection:
    """Look at one text: the [CLS] row of `layer` (1…L, the last if None) head by head, and the other maps beside it.

    Writes `attention-<start of the text>.png` into `folder`. Raises UserError for a layer the model does not have.
    """
    reading = read(predictor, text, pair)
    layers = predictor.classifier.config.num_hidden_layers
    if layer is not None and not 1 <= layer <= layers:
        raise UserError(f"layer {layer} does not exist: this model has layers 1 to {layers}.")
    shown = layers if layer is None else layer
    maps = all_maps(predictor, reading, shown)
    methods = faithful(predictor, maps, seed) if len(reading.content) > 1 else {}
    heads = maps.weights[shown - 1, :, 0]  # (H,S)
    png = None
    if folder is not None:
        slug = re.sub(r"[^a-z0-9]+", "-", text.lower())[:40].strip("-") or "text"
        png = Path(folder) / f"attention-{slug}-layer{shown}.png"
        heatmap(png, reading, heads, f"[CLS] attention, layer {shown} of {layers}")
    label, confidence = predictor.labels[reading.target], float(reading.probabilities[reading.target])
    head = (f"{label} (p = {confidence:.3f}), {len(reading.tokens)} tokens"
            + (f" of a text of {reading.total}, the rest was cut" if len(reading.content) < reading.total else ""))
    figures = {"text": text, "label": label, "confidence": confidence, "layer": shown, "tokens": reading.tokens,
               "special": reading.special.tolist(), "heads": heads.astype(float).tolist(),
               "maps": {name: values.astype(float).tolist() for name, values in maps.by_method.items()},
               "faithfulness": methods, "integral": {"difference": maps.integral.difference, "gap": maps.integral.gap,
                                                   "steps": maps.integral.steps, "complete": maps.integral.complete}}
    return Inspection(_inspection_lines(head, maps, heads, shown, methods),
                      _inspection_markdown(head, text, maps, shown, methods, png), png, figures)


def _completeness(integral: Integral) -> str:
    verdict = "complete" if integral.complete else "NOT complete: do not read this map closely"
    return (f"integrated gradients: parts add up to {integral.attribution.sum():+.3f}, to be explained "
            f"{integral.difference:+.3f} (gap {integral.gap:+.3f}, {integral.steps} points): {verdict}")


def _inspection_lines(head: str, maps: Maps, heads: np.ndarray, layer: int, methods: dict) -> list[str]:
    mean, effect = maps.by_method["attention"], maps.by_method["occlusion"]
    tokens, special = maps.reading.tokens, maps.reading.special
    widest, most = max(mean.max(), 1e-9), max(np.abs(effect).max(), 1e-9)
    lines = [head, "", f"  {'token':<18} {f'layer {layer}, mean of {len(heads)} heads':<28} taking it out changes the log-odds by"]
    for i in _worth_showing(mean, effect):
        bar = "█" * round(20 * mean[i] / widest)
        change = f"{-effect[i]:+7.3f} " + ("-" if effect[i] > 0 else "+") * round(20 * abs(effect[i]) / most)
        change = "special token" if special[i] else change
        lines.append(f"  {_pad(('*' if special[i] else ' ') + tokens[i], 18)} {bar:<20} {mean[i]:.3f}   {change}")
    if len(tokens) > 60:
        lines.append("  … the 60 tokens with most attention or effect; all of them are in the report")
    lines += ["", "  head by head, where [CLS] looked most (each row sums to 1; * special token):"]
    for h, row in enumerate(heads, 1):
        top = np.argsort(-row, kind="stable")[:4]
        looks = ", ".join(f"{'*' if special[i] else ''}{_visible(tokens[i])} {row[i]:.2f}" for i in top)
        lines.append(f"  head {h:>2} (sum {row.sum():.4f}): {looks}")
    lines += ["", "  " + _completeness(maps.integral)]
    if methods:
        lines.append("  which map to believe on this text (deletion area: lower is more faithful; rank correlation with "
                     "occlusion):")
        lines += [f"    {name:<21} {t['deletion_area']:.3f}" + (f"   {t['spearman']:+.2f}" if name != "random" else "")
                  for name, t in sorted(methods.items(), key=lambda item: item[1]["deletion_area"])]
        lines.append("  " + _verdict(methods))
    return lines


def _verdict(methods: dict) -> str:
    """Does attention say on this text what the answer rests on?"""
    attention, chance = methods["attention"]["deletion_area"], methods["random"]["deletion_area"]
    best = min((n for n in methods if n != "random"), key=lambda n: methods[n]["deletion_area"])
    if attention >= chance:
        return f"Here attention is no better a guide than a random order: believe {best}, not the attention map."
    if best == "attention":
        return "Here attention does point at what the answer rests on, as well as any map."
    return f"Here {best} is the better guide; attention beats a random order."


def _worth_showing(mean: np.ndarray, effect: np.ndarray, most: int = 60) -> np.ndarray:
    """Positions in text order: all, or those with the most attention or effect."""
    if len(mean) <= most:
        return np.arange(len(mean))
    rank = np.minimum(*(np.argsort(np.argsort(-values, kind="stable")) for values in (mean, np.abs(effect))))
    return np.sort(np.argsort(rank, kind="stable")[:most])


def _visible(token: str) -> str:
    """A token that cannot disturb a terminal or a picture: no control characters, spaces made visible."""
    return "".join("·" if c.isspace() else "?" if unicodedata.category(c).startswith("C") else c for c in token) or "·"


def _pad(token: str, width: int) -> str:
    """`_visible`, cut and filled to `width` terminal columns (a CJK character takes two)."""
    out, used = "", 0
    for c in (token[0] + _visible(token[1:])):
        columns = 2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1
        if used + columns > width:
            break
        out, used = out + c, used + columns
    return out + " " * (width - used)


def _inspection_markdown(head: str, text: str, maps: Maps, layer: int, methods: dict, png: Path | None) -> str:
    from .report import escape, table  # here, not above: it brings scikit-learn, which a server does without
    names, rows = list(maps.by_method), []
    for i, token in enumerate(maps.reading.tokens):
        cells = [f"{maps.by_method[n][i]:{'.3f' if n in UNSIGNED else '+.3f'}}" for n in names]
        cells.append(f"{maps.in_probability[i]:+.3f}")
        shown = escape(_visible(token))
        if maps.reading.special[i]:
            shown, cells[-2:] = f"*{shown}*", ["–", "–"]
        rows.append([shown, *cells])
    parts = [f"### What the model looked at: {escape(head)}", f"> {escape(text)}",
             f"![attention of the first token, head by head]({png.name})" if png is not None else "",
             f"Attention is the mean over the heads of layer {layer}. Positive: speaks for the label; negative: against it. "
             "Special tokens in italics; they cannot be taken out.",
             table(["token", *names, "occlusion, in probability"], rows), _completeness(maps.integral) + "."]
    if methods:
        ranked = sorted(methods.items(), key=lambda item: item[1]["deletion_area"])
        cells = [[name, f"{t['deletion_area']:.3f}", "–" if name == "random" else f"{t['spearman']:+.2f}"] for name, t in ranked]
        parts += [table(["map", "deletion area on this text", "rank correlation with occlusion"], cells), _verdict(methods)]
    return "\n\n".join(p for p in parts if p) + "\n"


def heatmap(path: Path, reading: Reading, heads: np.ndarray, title: str, per_panel: int = 40) -> None:
    """The [CLS] row as a picture: a row per head and their mean, a column per token, wrapped every `per_panel` tokens."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import PowerNorm
    from matplotlib.figure import Figure

    grid = np.concatenate([heads, heads.mean(0, keepdims=True)])  # (H+1,S)
    S, panels = grid.shape[1], -(-grid.shape[1] // per_panel)
    columns = min(S, per_panel)
    figure = Figure(figsize=(1.6 + 0.3 * max(columns, 12), 0.7 + panels * (1.0 + 0.2 * len(grid))), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(panels, 1, squeeze=False)[:, 0]
    names = [str(h + 1) for h in range(len(heads))] + ["mean"]
    for p, ax in enumerate(axes):
        part = slice(p * per_panel, min(S, (p + 1) * per_panel))
        padded = np.full((len(grid), columns), np.nan)  # every panel as wide as the first, so that cells are equal
        padded[:, :part.stop - part.start] = grid[:, part]
        # The square root spreads the small weights: one head that looks at one token would darken all others.
        image = ax.imshow(padded, cmap="viridis", norm=PowerNorm(0.5, 0, max(grid.max(), 1e-9)), aspect="auto")
        ax.axhline(len(heads) - 0.5, color="white", linewidth=2)
        ax.set_yticks(range(len(names)), names, fontsize=7)
        ax.set_ylabel("head", fontsize=8)
        ax.set_xticks(range(part.stop - part.start))
        labels = ax.set_xticklabels([_visible(t)[:14] for t in reading.tokens[part]], rotation=60, ha="right",
                                    rotation_mode="anchor", fontsize=8)
        for label, special in zip(labels, reading.special[part]):
            label.set_parse_math(False)  # a token may be "$"
            if special:
                label.set(color="#b03a2e", fontweight="bold")
    axes[0].set_title(f"{title} (special tokens in red)", fontsize=9)
    bar = figure.colorbar(image, ax=list(axes), shrink=0.8 if panels == 1 else 0.4)
    bar.set_label("attention weight", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a character the font lacks becomes a box, and that will do
        write_atomic(path, lambda temp: figure.savefig(temp, format="png", dpi=130))
