"""The lines that silently ruin a training run, each planted in train.py: the ordinary tests have to notice."""

import pytest

from mutants import KILLED, SURVIVED, Mutant, outcomes

LOOP, OPT = "train.py", "minibert/optimization.py"
# The quick ones first: a mutant's run ends with the first test that fails.
TESTS = ["tests/test_optimization.py"] + [f"tests/test_train.py::{name}" for name in (
    "test_every_row_counts_once_whatever_the_number_of_processes", "test_windows_of_a_document_are_averaged",
    "test_steps_follow_the_gradient_of_the_weighted_mean", "test_steps_counted_are_steps_taken",
    "test_a_skipped_step_advances_nothing", "test_clipping_sees_unscaled_gradients",
    "test_a_gradient_that_is_not_finite_stops_before_the_optimizer_and_spoils_nothing",
    "test_the_best_epoch_is_kept_not_the_last", "test_accumulation_is_the_larger_batch_uneven_tail_included",
    "test_validation_restores_the_mode_and_records_no_gradient", "test_a_replayed_run_json_is_the_same_run",
    "test_thirty_steps_agree_with_a_plain_loop_over_the_reference_model")]

MUTANTS = [Mutant(*m) for m in [
    # the four of the issue
    ("clip before unscale", LOOP, """            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(trained, flags.max_grad_norm)
""", """            norm = torch.nn.utils.clip_grad_norm_(trained, flags.max_grad_norm)
            scaler.unscale_(optimizer)
"""),
    ("loss not divided by the window", LOOP, "loss_sum(logits, targets, class_weights, flags.label_smoothing) / weight",
     "loss_sum(logits, targets, class_weights, flags.label_smoothing) / len(targets)"),
    ("schedule per micro-batch", LOOP, "at.step, at.skipped = at.step + 1, 0", "at.step, at.skipped = at.step + len(passes), 0"),
    ("best not restored", LOOP, "    model.load_state_dict(checkpoint.load_best(out, at.best_file, at.best_sha256))", "    pass"),
    # their siblings
    ("best is the worst", LOOP, "if (macro_f1, -val_loss) > (at.best_macro_f1, -at.best_val_loss):", "if macro_f1 < at.best_macro_f1 or at.best_epoch == 0:"),
    ("best is the last", LOOP, "if (macro_f1, -val_loss) > (at.best_macro_f1, -at.best_val_loss):", "if True:"),
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
