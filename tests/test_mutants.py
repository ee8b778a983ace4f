"""What from-scratch BERTs get wrong, each planted in the shipped source: the ordinary tests have to notice."""

import pytest

from mutants import KILLED, SURVIVED, Mutant, outcomes

MODEL, CONVERT, CONFIG = "minibert/model.py", "minibert/convert.py", "minibert/config.py"
# Left out: what is slow, and what starts another process, which would not see the patch.
PARITY = ["tests/test_parity.py", "tests/test_model.py", "--deselect=tests/test_parity.py::test_bert_base_size",
          "--deselect=tests/test_parity.py::test_real_weights",
          "--deselect=tests/test_model.py::test_importing_the_package_loads_no_room"]
LOADING = ["tests/test_convert.py", "--deselect=tests/test_convert.py::test_the_command_line"]

MUTANTS = [Mutant(*m) for m in [
    # attention
    ("mask inverted", MODEL, "scores.masked_fill(~mask,", "scores.masked_fill(mask,"),
    ("mask inverted for sdpa", MODEL, "attn_mask=mask,", "attn_mask=None if mask is None else ~mask,"),
    ("mask not used", MODEL, "mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]",
     "mask = None"),
    ("mask as a bias", MODEL, "(attention_mask != 0)[:, None, None, :]", "attention_mask.float()[:, None, None, :]"),
    ("K = Q", MODEL, "k = self.key(x)", "k = self.query(x)"),
    ("query and key swapped", CONVERT, '"layers.{n}.attention.query": "encoder.layer.{n}.attention.self.query",\n    "layers.{n}.attention.key": "encoder.layer.{n}.attention.self.key"',
     '"layers.{n}.attention.query": "encoder.layer.{n}.attention.self.key",\n    "layers.{n}.attention.key": "encoder.layer.{n}.attention.self.query"'),
    ("no scaling", MODEL, " * self.W**-0.5", ""),
    ("scaling left out of sdpa", MODEL, "attn_mask=mask, dropout_p=p", "attn_mask=mask, dropout_p=p, scale=1.0"),
    ("softmax over queries", MODEL, "scores.softmax(dim=-1", "scores.softmax(dim=-2"),
    ("heads cut across tokens", MODEL, "self.output(context.transpose(1, 2).reshape(B, Q, D))", "self.output(context.reshape(B, Q, D))"),
    ("attention dropout in eval", MODEL, "p = self.dropout if self.training else 0.0", "p = self.dropout"),
    ("attention dropout missing", MODEL, "p = self.dropout if self.training else 0.0", "p = 0.0"),
    ("mask constant that overflows", MODEL, "torch.finfo(scores.dtype).min", "-1e9"),
    ("maps missing under sdpa", MODEL, 'eager = output_attentions or self.implementation == "eager"', 'eager = self.implementation == "eager"'),
    ("the last layer looks from another row", MODEL, "looking = x[:, :queries]", "looking = x[:, -queries:] if queries else x"),
    ("the last layer adds another row", MODEL, "        x = x[:, :queries]\n", "        x = x[:, -queries:] if queries else x\n"),
    ("every layer for [CLS] alone", MODEL, "1 if cls_only and number == len(self.layers) else None", "1 if cls_only else None"),
    # layers
    ("pre-LN", MODEL, "x = self.attention_LayerNorm(x + self.attention_dropout(context))", "x = x + self.attention_dropout(self.attention_LayerNorm(context))"),
    ("residual around attention dropped", MODEL, "self.attention_LayerNorm(x + self.attention_dropout(context))", "self.attention_LayerNorm(self.attention_dropout(context))"),
    ("residual around the feed-forward dropped", MODEL, "self.output_LayerNorm(x + self.output_dropout(", "self.output_LayerNorm(self.output_dropout("),
    ("feed-forward without LayerNorm", MODEL, "x = self.output_LayerNorm(x + self.output_dropout(self.feed_forward(x)))", "x = x + self.output_dropout(self.feed_forward(x))"),
    ("one LayerNorm for both places", MODEL, "x = self.output_LayerNorm(x +", "x = self.attention_LayerNorm(x +"),
    ("tanh GELU", MODEL, '"gelu": F.gelu,', '"gelu": lambda x: F.gelu(x, approximate="tanh"),'),
    ("eps of the layers is the library's", MODEL, "self.attention_LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)",
     "self.attention_LayerNorm = nn.LayerNorm(config.hidden_size)"),
    ("eps of the embeddings is the library's", MODEL, "self.LayerNorm = nn.LayerNorm(D, eps=config.layer_norm_eps)", "self.LayerNorm = nn.LayerNorm(D)"),
    ("LayerNorm by unbiased std", MODEL, "return self.dropout(self.LayerNorm(x))",
     "return self.dropout((x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) * self.LayerNorm.weight + self.LayerNorm.bias)"),
    ("dropout after attention missing", MODEL, "x + self.attention_dropout(context)", "x + context"),
    ("dropout after the feed-forward missing", MODEL, "x + self.output_dropout(self.feed_forward(x))", "x + self.feed_forward(x)"),
    ("dropout after attention where DistilBERT has none", CONFIG, "has_pooler=False, attention_output_dropout=False", "has_pooler=False, attention_output_dropout=True"),
    # embeddings
    ("embedding LayerNorm missing", MODEL, "return self.dropout(self.LayerNorm(x))", "return self.dropout(x)"),
    ("embedding dropout missing", MODEL, "return self.dropout(self.LayerNorm(x))", "return self.LayerNorm(x)"),
    ("segment row not added", MODEL, "            x = x + row\n", ""),
    ("segments hard-coded to zero", MODEL, "if token_type_ids is None else self.token_type_embeddings(token_type_ids)", "if True else None"),
    ("segment left out adds nothing", MODEL, "row = self.token_type_embeddings.weight[0] if", "row = 0.0 if"),
    ("sinusoidal positions", MODEL, "x = x + self.position_embeddings(self.positions(input_ids, attention_mask, words))",
     "x = x + torch.sin(self.positions(input_ids, attention_mask, words)[..., None] / 10000 ** (torch.arange(x.shape[2]) / x.shape[2]))"),
    ("roberta positions from 0", MODEL, "return real.cumsum(dim=1) * real + self.pad_token_id", "return (real.cumsum(dim=1) - 1).clamp(min=0)"),
    ("roberta pads counted", MODEL, "return real.cumsum(dim=1) * real + self.pad_token_id", "return real.cumsum(dim=1) + self.pad_token_id"),
    ("roberta offset fixed at 2", MODEL, "real.cumsum(dim=1) * real + self.pad_token_id", "real.cumsum(dim=1) * real + 1"),
    ("bert positions skip padding", CONFIG, "positions_skip_padding=False, has_pooler=True", "positions_skip_padding=True, has_pooler=True"),
    ("gradient into the [PAD] row", MODEL, "nn.Embedding(config.vocab_size, D, padding_idx=pad)", "nn.Embedding(config.vocab_size, D)"),
    # pooler and heads
    ("pooler without tanh", MODEL, "torch.tanh(self.pooler(x[:, 0]))", "self.pooler(x[:, 0])"),
    ("pooler skipped by the native head", MODEL, '"bert": HeadSpec(reads_pooler=True)', '"bert": HeadSpec()'),
    ("pooler under the linear head", MODEL, "LINEAR_HEAD = HeadSpec()", "LINEAR_HEAD = HeadSpec(reads_pooler=True)"),
    ("pooler never loaded", CONVERT, '    "pooler": "pooler.dense",\n', '    "pooler": "pooler.Dense",\n'),
    ("pooler left trainable", MODEL, "self.encoder.pooler.requires_grad_(False)", "pass"),
    ("last token pooled", MODEL, "else out.last_hidden_state[:, 0]", "else out.last_hidden_state[:, -1]"),
    ("distilbert head with tanh", MODEL, "HeadSpec(dense=torch.relu)", "HeadSpec(dense=torch.tanh)"),
    ("head dropout missing", MODEL, "return self.classifier(self.dropout(x))", "return self.classifier(x)"),
    ("roberta head's first dropout missing", MODEL, "HeadSpec(dense=torch.tanh, dropout_first=True)", "HeadSpec(dense=torch.tanh)"),
    ("layer made inside forward", MODEL, "return self.output(self.activation(self.intermediate(x)))",
     "return nn.Linear(x.shape[2], x.shape[2])(self.activation(x))"),
    # weights in and out
    ("gamma and beta not mapped", CONVERT, "{'gamma': 'weight', 'beta': 'bias'}.get(last, last)", "last"),
    ("missing keys accepted", CONVERT, "    if missing:\n", "    if False:\n"),
    ("unknown keys accepted", CONVERT, "    if unknown:\n", "    if False:\n"),
    ("zero keys accepted", CONVERT, 'if not any(not name.startswith("head.") for name in copied.values()):', "if False:"),
    ("shapes not compared", CONVERT, "if state[key].shape != params[name].shape:", "if False:"),
    ("two keys for one parameter accepted", CONVERT, "        if name in state:\n", "        if False:\n"),
    ("family's prefix not stripped", CONVERT, "for p in (*WRAPPERS, *PREFIX.values()) if", "for p in WRAPPERS if"),
    ("wrapper's prefix not stripped", CONVERT, "for p in (*WRAPPERS, *PREFIX.values()) if", "for p in PREFIX.values() if"),
    ("another family's prefix told by its end", CONVERT, "if prefix in carried]", "if any(c.endswith(prefix) for c in carried)]"),
    ("half precision kept", CONVERT, "params[name].copy_(state[key])", "params[name].data = state[key]"),
    ("initialisation after the copy", CONVERT, "    return LoadReport(list(copied.values()), list(fresh.values()), left_out, foreign)",
     "    _initialise(module, list(wanted.values()), seed)\n    return LoadReport(list(copied.values()), list(fresh.values()), left_out, foreign)"),
    ("new parts from the global generator", CONVERT, "module.config.initializer_range, generator)", "module.config.initializer_range)"),
    ("tied names ignored", CONVERT, "if stored in tensors and alias not in tensors:", "if False:"),
    ("linear head under the family's key", CONVERT, '{"head.classifier": "linear_head"}', '{"head.classifier": "classifier"}'),
    ("labels lost", CONVERT, 'labels = labels_from_config(d, where) or', "labels ="),
    ("temperature not in the bias", CONVERT, "        last.bias /= temperature\n", ""),
    ("pickles opened", CONVERT, "weights_only=True)", "weights_only=False)"),
    # checks
    ("ids not checked", MODEL, "if low < 0 or high >= rows:", "if False:"),
    ("empty rows accepted", MODEL, "if not bool(real.any(dim=1).all()):", "if False:"),
    ("length not checked", MODEL, "if given.shape[1] > config.max_tokens:", "if False:"),
    ("roberta uses all 514 rows", CONFIG, "return self.max_position_embeddings - self.position_offset", "return self.max_position_embeddings"),
]]


@pytest.fixture(scope="module")
def found():
    loading = outcomes([m for m in MUTANTS if m.file == CONVERT], LOADING)
    encoder = outcomes([m for m in MUTANTS if m.file != CONVERT], PARITY)
    assert loading.pop("unpatched") == encoder.pop("unpatched") == SURVIVED
    return {**loading, **encoder}


@pytest.mark.parametrize("name", [m.name for m in MUTANTS])
def test_the_mutant_is_noticed(found, name):
    assert found[name] == KILLED
