"""The lines that silently ruin a training run, each planted in train.py: the ordinary tests have to notice."""

import pytest

from mutants import KILLED, SURVIVED, Mutant, outcomes

LOOP, OPT = "train.py", "minibert/optimization.py"
TESTS = ["tests/test_train.py", "tests/test_optimization.py"] + [f"--deselect=tests/test_train.py::{name}" for name in (
    "test_exit_status_and_no_traceback", "test_150_classes_of_three_rows", "test_bf16_autocast_trains_close_to_fp32_and_keeps_fp32_weights",
    "test_same_seed_same_bits_with_or_without_workers_and_other_seeds_differ")]

MUTANTS = [Mutant(*m) for m in [
    # the four of the issue
    ("clip before unscale", LOOP, """            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(trained, flags.max_grad_norm)
""", """            norm = torch.nn.utils.clip_grad_norm_(trained, flags.max_grad_norm)
            scaler.unscale_(optimizer)
"""),
    ("loss not divided by the window", LOOP, "loss_sum(logits, targets, class_weights, flags.label_smoothing) / weight",
     "loss_sum(logits, targets, class_weights, flags.label_smoothing) / len(targets)"),
    ("schedule per micro-batch", LOOP, "at.step, at.skipped = at.step + 1, 0", "at.step, at.skipped = at.step + len(counts), 0"),
    ("best not restored", LOOP, "    model.load_state_dict(checkpoint.load_best(out, at.best_file, at.best_sha256))", "    pass"),
    # their siblings
    ("best is the worst", LOOP, "if macro_f1 > at.best_macro_f1:", "if macro_f1 < at.best_macro_f1 or at.best_epoch == 0:"),
    ("best is the last", LOOP, "if macro_f1 > at.best_macro_f1:", "if True:"),
    ("gradients never zeroed", LOOP, "            optimizer.zero_grad(set_to_none=True)\n", ""),
    ("a skipped step advances the schedule", LOOP, "if scaler.get_scale() < scale:", "if False:"),
    ("a gradient that is not finite is stepped on", LOOP, "or (not math.isfinite(norm) and not scaler.is_enabled())", ""),
    ("no clipping", LOOP, "clip_grad_norm_(trained, flags.max_grad_norm)", "clip_grad_norm_(trained, 1e9)"),
    ("class weights left out of the divisor", LOOP, "weight = loss_weight(train.labels[window], class_weights)", "weight = loss_weight(train.labels[window], None)"),
    ("validation in training mode", LOOP, "    model.eval()  # dropout off\n", ""),
    ("mode not restored", LOOP, "    model.train(was_training)\n", ""),
    ("dropout flag ignored", LOOP, "rates = dict(dropout=flags.dropout, attention_dropout=flags.attention_dropout)",
     "rates = dict(dropout=None, attention_dropout=None)"),
    ("the order does not depend on the epoch", LOOP, "return data.length_buckets(lengths, effective_batch, seed, epoch)", "return data.length_buckets(lengths, effective_batch, seed, 0)"),
    ("decay on everything", OPT, "decayed = id(p) in decayed_ids", "decayed = True"),
    ("decay on nothing", OPT, "decayed = id(p) in decayed_ids", "decayed = False"),
    ("warmup missing", OPT, "        return step / warmup\n", "        return 1.0\n"),
    ("the rate reaches zero a step early", OPT, "(total - step) / max(1, total - warmup)", "(total - 1 - step) / max(1, total - warmup)"),
    ("no bias correction", OPT, "return torch.optim.AdamW(groups, betas=(0.9, 0.999)", "return torch.optim.AdamW(groups, betas=(0.0, 0.999)"),
    ("the process's rows overlap", LOOP, "parts = np.array_split(window, passes * procs.world)[procs.rank::procs.world]",
     "parts = np.array_split(window, passes * procs.world)[:passes]"),
    ("windows of a document summed", LOOP, "return sums / torch.bincount(document, minlength=documents).unsqueeze(1)", "return sums"),
    ("seed not used", LOOP, "seed_everything(seed, at.epoch, at.window, procs.rank)", "pass"),
]]


@pytest.fixture(scope="module")
def found():
    return outcomes(MUTANTS, TESTS)


def test_unpatched_passes(found):
    assert found["unpatched"] == SURVIVED


@pytest.mark.parametrize("name", [m.name for m in MUTANTS])
def test_the_suite_notices(found, name):
    assert found[name] == KILLED
