"""What a text says in plain English keywords: negation, contrast, praise and blame, irony.

Regular expressions, not understanding: they are meant to sort errors into heaps worth reading, and their hits and
misses are measured in the tests on texts whose construction is known. English only; `looks_english` says when to
leave them out.
"""

from __future__ import annotations

import re
from typing import Callable, Sequence


def _any(*patterns: str) -> re.Pattern:
    return re.compile(r"\b(?:" + "|".join(patterns) + r")\b", re.IGNORECASE)


def _stems(words: str) -> list[str]:
    """Space-separated words; one that ends in * takes any ending."""
    return [w.replace("*", r"\w*").replace("_", " ") for w in words.split()]


NEGATION = _any(*_stems("not no never nothing nobody none nor neither nowhere cannot without hardly barely scarcely dont isnt "
                        "wasnt doesnt didnt cant wont couldnt wouldnt far_from anything_but by_no_means lack* avoid*"),
                r"fail(?:s|ed)? to", r"\w+n['’]t", r"(?:wrong|unfair|hard|difficult|impossible) to (?:call|say|find)",
                r"refus\w+ to", "free of", "few")

CONTRAST = _any(*_stems("but however although though yet despite in_spite_of nevertheless nonetheless even_so even_if "
                        "still whereas on_the_other_hand all_the_same at_least granted admittedly notwithstanding "
                        "redeem* never_mind regardless"),
                "for all (?:that|its|his|her|their)", r"(?:much|\w{3,}) as (?:the|it|he|she|they)\b",
                r"(?:while|true),? .{3,80}?,", r"(?:no|does ?n['’]t|did ?n['’]t|none of .{2,12}) matters?", r"sav(?:ed|es) (?:it|by)",
                r"(?:can['’]t|cannot|nothing to) change", "in the face of", "on paper", "in the end")

_PRAISE = """good great excellent wonderful* superb* brilliant* beautiful* charm* delight* enjoy* funny moving* gripp* love
loved loves lovely perfect* fantastic* amazing* terrific clever* fresh tender* warm* witty masterpiece masterful masterly
best impress* touching touched memorable fine sharp elegant* graceful* vivid* well_* strong* thrill* stunn* magnificent*
marvel* splendid* exquisite* captivat* haunting absorb* engag* entertain* excit* inventive* original inspired convinc*
heartfelt honest* joy* gem treat triumph* winner success* pleasure revelation recommend* refresh* reward* rich rivet*
satisfying* sensitive* sincere smart* sparkling spirited spellbound* subtle superior sweet talented unforgettable uplifting
worth* dazzl* gorgeous lively nuanced assured magnetic hilarious hooked enchant* won_* miracle wonder hit knockout stirring
admir* ador* favorite favourite compelling intelligent powerful* authentic"""
PRAISE = _any(*_stems(_PRAISE))

_BLAME = """bad badly awful* terrible terribly horribl* horrid dull* boring* bored bore bores poor* weak* worst worse stupid*
silly mess messy lifeless flat tedious* tedium clumsy wooden waste* wasting hate hated hates dreadful* annoy* predictable
bland* stale slow slog disappoint* forgettable lazy shallow* ugly pointless* tiresome tired hollow ridiculous* confus* dreary
sloppy cheap* painful* muddled stiff awkward* amateur* atroc* cliche* contrived crap* disaster* dismal* dire drab dud empty
fail* fake feeble flop flawed grating headache implausible incoherent* inept irritat* joyless lame laughable leaden letdown
let_down mediocre misfire mindless nonsens* offensive ordeal overlong overrated plodding pretentious restless rubbish shambles
shoddy sluggish soulless stilted stink* suffer* trash* trite unconvincing underwhelm* unfunny uninspired unmoved unwatchable
uneven worthless worn_out exhaust* charmless chore cheated fed_up"""
BLAME = _any(*_stems(_BLAME))

# Phrases that seldom mean what they say, and an interjection followed by praise or blame ("oh, so thrilling").
SARCASM = re.compile("|".join([
    r"\b(?:yeah|yes|right|oh|ah|wow|sure|gee|well),? (?:right|sure|so|how|great|joy|yes|no|because|the famous|just what|another|"
    r"terribly|call it|it['’]s)\b",
    r"(?:^|[.!?,] )(?:sure|right), ", r", (?:sure|right)[,.?]", r"\bas if\b(?!.{0,3}it)", r"\b(?:in what|in which) (?:universe|world)",
    r"\b(?:my foot|pull the other one|pigs (?:can|might) fly|slow clap|tell me (?:again|another)|thanks for (?:nothing|asking))\b",
    r"\bthen (?:i am|i['’]m|\w+ \w+ is) (?:an?|the)\b", r"\b(?:and|,) (?:of course )?i(?: am|['’]m) (?:an?|the) \w+[.!]",
    r"\bfunny, that\b", r"\bhow (?:very|original|thoughtful|kind|refreshing|generous)\b", r"\b(?:of course|clearly|obviously|"
    r"apparently|congratulations)\b(?=.{0,60}\b(?:of course|must be why|which must|will tell you|now means|to whoever)\b)",
    r"\bexactly what .{1,30} need", r"\bwhat (?:a (?:surprise|shock|gift|bargain)|could be more)\b(?=.{0,60}[.!?])",
    r"\bif (?:you (?:like|love|enjoy) (?:watching paint|being)|your idea of|by that you mean)\b", r"\bnothing says\b",
    r"\bcure for insomnia\b", r"\bonly if you mean\b", r"\bin the sense that\b", r"\bthe way .{3,30} is\b", r"\bis the new word for\b",
]), re.IGNORECASE)

_COMMON = _any(*_stems("the and of to is it this was in i a my that with for"))


def mixed_sentiment(text: str) -> bool:
    """Both a word of praise and a word of blame stand in it."""
    return bool(PRAISE.search(text)) and bool(BLAME.search(text))


def looks_english(texts: Sequence[str]) -> bool:
    """Half of up to a thousand texts hold one of the commonest English words."""
    sample = texts[:: max(1, len(texts) // 1000)]
    return len(sample) > 0 and sum(bool(_COMMON.search(t)) for t in sample) >= 0.5 * len(sample)


DETECTORS: dict[str, tuple[Callable[[str], bool], str, str]] = {  # name → (finds it?, what it means, what to do next)
    "negation": (lambda t: bool(NEGATION.search(t)), "a negation stands in the text",
                 "add training rows in minimal pairs (the same sentence with and without the negation), or take a "
                 "larger pretrained encoder: word order is what a bag of words, or a model that behaves like one, misses"),
    "contrast": (lambda t: bool(CONTRAST.search(t)), "the text turns round (“but”, “although”, …)",
                 "add rows whose verdict stands after the turn, in both directions; train longer or take a larger "
                 "pretrained encoder"),
    "mixed sentiment": (mixed_sentiment, "praise and blame stand in one text",
                        "read ten of them: if people would disagree too, set a confidence under which a person decides, "
                        "or split the label by aspect"),
    "sarcasm markers": (lambda t: bool(SARCASM.search(t)), "a turn of phrase that is often ironic",
                        "label more ironic rows; a larger pretrained model helps more here than longer training"),
}
