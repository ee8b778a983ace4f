"""A model name or a folder → its files on disk: config.json, the tokenizer's files, the weights. Nothing is parsed
beyond what is needed to find them; convert.py reads the weights, tokenization.py the tokenizer.

Names go through `huggingface_hub` and its cache ($HF_HOME). Only files that are used are fetched.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Iterator

from . import config as configs
from .cli import UserError, nearest, progress
from .files import read_json, storage_faults

# In order of preference: safetensors hold plain numbers, a .bin is a pickle (read with weights_only=True).
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")

# tokenizer.json alone is enough; the others build a tokenizer where it is absent.
TOKENIZER = ("tokenizer_config.json", "special_tokens_map.json", "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt")

# Checkpoints of the three families that people name most: what "did you mean" chooses from, not a limit.
KNOWN = (
    "bert-base-uncased", "bert-base-cased", "bert-large-uncased", "bert-large-cased",
    "bert-base-multilingual-uncased", "bert-base-multilingual-cased", "bert-base-chinese", "bert-base-german-cased",
    "google-bert/bert-base-uncased", "google-bert/bert-base-cased", "google/bert_uncased_L-2_H-128_A-2",
    "prajjwal1/bert-tiny", "prajjwal1/bert-mini", "huawei-noah/TinyBERT_General_4L_312D",
    "nreimers/MiniLM-L6-H384-uncased", "microsoft/MiniLM-L12-H384-uncased", "sentence-transformers/all-MiniLM-L6-v2",
    "dmis-lab/biobert-v1.1", "allenai/scibert_scivocab_uncased", "ProsusAI/finbert", "nlpaueb/legal-bert-base-uncased",
    "nlptown/bert-base-multilingual-uncased-sentiment", "textattack/bert-base-uncased-imdb",
    "distilbert-base-uncased", "distilbert-base-cased", "distilbert-base-multilingual-cased",
    "distilbert-base-uncased-finetuned-sst-2-english", "distilbert/distilbert-base-uncased",
    "roberta-base", "roberta-large", "distilroberta-base", "FacebookAI/roberta-base", "roberta-large-mnli",
    "cardiffnlp/twitter-roberta-base-sentiment-latest", "xlm-roberta-base", "xlm-roberta-large",
)


@dataclass(frozen=True)
class ModelFiles:
    """A checkpoint on disk. `folder` holds config.json and the tokenizer's files; `config` is config.json as read;
    `weights` are the files that hold the tensors, several if sharded, none if they were not asked for."""

    folder: Path
    name: str
    config: dict[str, Any]
    weights: list[Path]


def resolve(name_or_folder: str | os.PathLike, revision: str | None = None, quiet: bool = False,
            weights: bool = True) -> ModelFiles:
    """The files of a local folder, or of a hub name: downloaded once, with a bar on a terminal, then cached.

    `revision`: a branch, tag or commit of the hub. `weights=False` leaves the weights out.
    Raises UserError: no such folder or name, no access, offline and not cached, a file missing, a family that is
    not ours (told before its weights are fetched).
    """
    name = os.fspath(name_or_folder)
    if not name.strip():
        raise UserError(f"the model's name is empty; give a folder, or a name from the hub such as {KNOWN[0]}.")
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _read_folder(folder, name, weights)
    if folder.is_file():
        raise UserError(f"{name} is a file; a model is a folder with config.json and its weights: give {folder.parent}.")
    if _looks_like_a_path(name):
        raise UserError(f"there is no folder {name}: give an existing one, or a name from the hub such as {KNOWN[0]}.")
    return _from_hub(name, revision, quiet, weights)


def _looks_like_a_path(name: str) -> bool:
    """Hub names are `name` or `owner/name`; anything else, or an owner that is a folder here, was meant as a path."""
    parts = name.split("/")
    return (name[0] in "./~" or name.endswith("/") or "\\" in name or len(parts) > 2
            or (len(parts) == 2 and Path(parts[0]).is_dir()))


# -------------------------------------------------------------------- a local folder

def _read_folder(folder: Path, name: str, weights: bool) -> ModelFiles:
    if not (folder / "config.json").is_file():
        present = sorted(p.name for p in folder.iterdir())[:8]
        raise UserError(f"{name} is no model folder: looked for config.json and {', '.join(WEIGHTS)}, found "
                        f"{', '.join(present) or 'nothing'}.")
    config = _read_config(folder, name)
    if not weights:
        return ModelFiles(folder, name, config, [])
    first = next((w for w in WEIGHTS if (folder / w).is_file()), None)
    if first is None:
        raise UserError(f"{name} holds no weights: looked for {', '.join(WEIGHTS)}.")
    files = shards(folder / first) if first.endswith(".index.json") else [first]
    missing = [f for f in files if not (folder / f).is_file()]
    if missing:
        raise UserError(f"{name} lacks {missing[0]}, one of {len(files)} files that {first} names; copy it there.")
    return ModelFiles(folder, name, config, [folder / f for f in files])


def _read_config(folder: Path, name: str) -> dict[str, Any]:
    config = read_json(folder / "config.json", "model's configuration")
    configs.model_type_of(config, f"{name}: config.json")  # refuses another family by name
    return config


def shards(index: Path) -> list[str]:
    """The file names in a sharded checkpoint's index (`weight_map`: tensor name → file), each once, sorted.

    Raises UserError for a damaged index, or one that points outside its folder.
    """
    content = read_json(index, "index of the weight files")
    table = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(table, dict) or not table or not all(isinstance(f, str) and f for f in table.values()):
        raise UserError(f"{index} must hold \"weight_map\", an object that gives a file name for each tensor; the file is damaged.")
    for file in table.values():
        path = PurePosixPath(file)
        if path.is_absolute() or ".." in path.parts or "\\" in file or "\0" in file:
            raise UserError(f"{index} names {file!r}, which lies outside the model's folder; refused, do not trust this checkpoint.")
    return sorted(set(table.values()))


# -------------------------------------------------------------------- the hub

def _from_hub(name: str, revision: str | None, quiet: bool, weights: bool) -> ModelFiles:
    with _hub_errors(name, revision):
        repo = _Repo(name, revision, quiet)
        config_file = repo.get("config.json")
        if config_file is None:
            raise UserError(repo.not_cached("its config.json"))
        config = _read_config(config_file.parent, name)
        # The files of one load are files of one commit, even if somebody pushes another in between.
        repo.revision = config_file.parent.name
        found = [repo.get(file) for file in TOKENIZER]
        if not any(found) and repo.offline:
            raise UserError(repo.not_cached("its tokenizer"))
        return ModelFiles(config_file.parent, name, config, repo.get_weights() if weights else [])


class _Repo:
    """One repository at one revision: its files, from the cache or from the hub.

    `offline` says why the hub is not asked ("" if it is). It is settled by one request at the start: a laptop on a
    train must not wait for a dead line once per file.
    """

    def __init__(self, name: str, revision: str | None, quiet: bool):
        import huggingface_hub  # here, since importing it takes a moment that local folders need not wait for
        self.hub, self.name, self.revision, self.quiet = huggingface_hub, name, revision, quiet
        self.offline = self._why_offline()

    def _why_offline(self) -> str:
        import httpx2  # huggingface_hub's HTTP client
        try:
            self._metadata("config.json")
        except self.hub.errors.OfflineModeIsEnabled:
            return "HF_HUB_OFFLINE is set"
        except (httpx2.TransportError, httpx2.InvalidURL):
            return "the hub cannot be reached"
        except self.hub.errors.HfHubHTTPError as e:
            if e.response is None or e.response.status_code < 500:
                raise
            return f"the hub answers with status {e.response.status_code}"
        return ""

    def _metadata(self, file: str) -> Any:
        return self.hub.get_hf_file_metadata(self.hub.hf_hub_url(self.name, file, revision=self.revision))

    def get(self, file: str, large: bool = False) -> Path | None:
        """The file on disk; None if the repository has none of that name, or it is not cached and `offline`."""
        # A branch may have moved since it was cached, so only a commit's files are taken without asking.
        if self.offline or len(self.revision or "") == 40:
            cached = self.hub.try_to_load_from_cache(self.name, file, revision=self.revision)
            if cached is not None or self.offline:
                return Path(cached) if isinstance(cached, str) else None
        try:
            if large:
                self._download(file)
            return Path(self.hub.hf_hub_download(self.name, file, revision=self.revision, tqdm_class=self._bar))
        except self.hub.errors.LocalEntryNotFoundError:  # the line went down meanwhile
            raise
        except self.hub.errors.EntryNotFoundError:
            return None

    def get_weights(self) -> list[Path]:
        for file in WEIGHTS:
            if not file.endswith(".index.json"):
                path = self.get(file, large=True)
                if path is not None:
                    return [path]
                continue
            index = self.get(file)
            if index is not None:
                parts = {part: self.get(part, large=True) for part in shards(index)}
                missing = [part for part, path in parts.items() if path is None]
                if not missing:
                    return list(parts.values())
                if self.offline:
                    raise UserError(self.not_cached(missing[0]))
                raise UserError(f"'{self.name}' on the hub lacks {missing[0]}, which its {file} names.")
        if self.offline:
            raise UserError(self.not_cached("its weights"))
        raise UserError(f"'{self.name}' on the hub holds no weights that minibert reads: looked for {', '.join(WEIGHTS)}.")

    def _download(self, file: str) -> None:
        """Fetch a large file into the cache's store, going on where an earlier process was stopped.

        `hf_hub_download` resumes after a broken connection, but begins again after a killed process. The store is
        `blobs/<etag>`, a file it finds there it only has to link.
        """
        from huggingface_hub import file_download
        self.hub.hf_hub_download(self.name, file, revision=self.revision, dry_run=True)  # raises, and notes it, if absent
        metadata = self._metadata(file)
        blobs = Path(self.hub.constants.HF_HUB_CACHE, file_download.repo_folder_name(repo_id=self.name, repo_type="model"), "blobs")
        whole, part = blobs / metadata.etag, blobs / f"{metadata.etag}.partial"
        blobs.mkdir(parents=True, exist_ok=True)
        with open(part, "a+b") as f:
            fcntl.flock(f, fcntl.LOCK_EX)  # waits for another process that fetches the same file
            if whole.exists():
                return
            size = f.seek(0, os.SEEK_END)
            if metadata.size is not None and size > metadata.size:
                size = f.truncate(0)
            # The address of the hub itself: a redirect to another host then drops the user's token.
            file_download.http_get(self.hub.hf_hub_url(self.name, file, revision=self.revision), f, resume_size=size,
                                   headers=self.hub.utils.build_hf_headers(), expected_size=metadata.size,
                                   displayed_filename=file, tqdm_class=self._bar)
            f.flush()
            os.fsync(f.fileno())
            if len(metadata.etag) == 64:  # large files are named by their SHA-256
                f.seek(0)
                if hashlib.file_digest(f, "sha256").hexdigest() != metadata.etag:
                    part.unlink()
                    raise UserError(f"{file} of '{self.name}' arrived damaged (its checksum differs); run the same command again.")
            os.replace(part, whole)

    def _bar(self, **kw: Any) -> Any:
        return progress(quiet=self.quiet, **{**kw, "desc": f"{self.name} {kw.get('desc', '')}"})

    def not_cached(self, what: str) -> str:
        return (f"'{self.name}' is neither a folder here nor cached ({what} is not in {self.hub.constants.HF_HUB_CACHE}), "
                f"and {self.offline}{_did_you_mean(self.name)}: run once with network access, or give a local folder.")


def _no_such_model(name: str) -> str:
    return (f"'{name}' is neither a folder here nor a public model on the hub{_did_you_mean(name)}; if it is private, log "
            "in with `hf auth login` or set HF_TOKEN.")


def _did_you_mean(name: str) -> str:
    return "" if name in KNOWN else nearest(name, KNOWN)


@contextlib.contextmanager
def _hub_errors(name: str, revision: str | None) -> Iterator[None]:
    """Whatever huggingface_hub raises, as one sentence."""
    import httpx2
    from huggingface_hub import errors, get_token
    try:
        with storage_faults("store the model in the cache of huggingface_hub ($HF_HOME)"):
            yield
    except errors.HFValidationError:
        raise UserError(f"'{name}' is neither a folder here nor a possible name on the hub{_did_you_mean(name)}.") from None
    except errors.GatedRepoError:
        raise UserError(f"'{name}' is gated: accept its terms on its page on the hub, then log in with `hf auth login` or "
                        "set HF_TOKEN.") from None
    except errors.RepositoryNotFoundError:
        raise UserError(_no_such_model(name)) from None
    except errors.RevisionNotFoundError:
        raise UserError(f"'{name}' has no revision '{revision}' on the hub; leave --revision out, or give one of its "
                        "branches, tags or commits.") from None
    except errors.LocalEntryNotFoundError:
        raise UserError(f"the hub does not answer as it should while '{name}' is fetched; check the network (and HF_ENDPOINT "
                        "if it is set), then run the same command again.") from None
    except errors.EntryNotFoundError:
        raise UserError(f"'{name}' on the hub has no config.json, so it is not a checkpoint that can be loaded.") from None
    except errors.HfHubHTTPError as e:
        status = e.response.status_code if e.response is not None else "unknown"
        if status == 401 and not get_token():  # what the hub answers a stranger, whether the name exists or not
            raise UserError(_no_such_model(name)) from None
        advice = {401: "your token is not valid: log in again with `hf auth login` or correct HF_TOKEN",
                  403: "your token may not read it: ask its owner for access",
                  429: "too many requests: wait a few minutes"}.get(status, "try again later")
        raise UserError(f"the hub refuses '{name}' (status {status}); {advice}.") from None
    except (httpx2.HTTPError, errors.FileMetadataError) as e:
        raise UserError(f"the connection to the hub failed while '{name}' was fetched ({type(e).__name__}); what has "
                        "arrived is kept: run the same command again.") from None
    except OSError as e:
        raise UserError(f"'{name}' could not be fetched ({' '.join(str(e).split())[:200]}); run the same command again.") from None
