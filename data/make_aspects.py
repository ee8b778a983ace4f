"""Writes data/aspects.csv: what a review talks about, several labels at once. `python data/make_aspects.py`

Each row names none, one or several of seven aspects, with "|" between the labels; an empty label is legal and means
that the text is about none of them. Praise or blame plays no part. The words overlap on purpose ("the score", "a scene",
"long") and a text about no aspect may still use them ("I scored a ticket").
Pure standard library, one seed, the same bytes on every machine. See data/README.md.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from grammar import SPLITS, Corpus, Writer, deal, main, tidy  # noqa: E402

SEED = 13
SIZES = {"train": 4000, "val": 800, "test": 1200}
LABELS = ("acting", "music", "pacing", "plot", "price", "sound", "visuals")
SHARES = {0: 0.08, 1: 0.36, 2: 0.34, 3: 0.16, 4: 0.06}  # how many labels a row carries

WORDS: dict[str, list] = {
    "good": "fine good great decent strong solid lovely clever brilliant clear neat superb nice".split(),
    "bad": "weak poor dull bad awful odd clumsy tired feeble flat messy dreadful dire".split(),
    "judged": "fine good great decent strong weak poor dull bad awful odd brilliant superb dire nothing-special".replace(
        "-", " ").split() + ["hard to fault", "below par", "out of the ordinary", "as expected"],
    "name": [f"{first} {last}" for first in "Marta Owen Lena Idris Paula Tomas Greta Samir Nora Felix Anja Bruno".split()
             for last in "Halloran Brandt Okafor Lindqvist Mercer Dias Kowal Amari Fenn Sorel Whitlock Varga".split()],
    "who": ["my sister", "my partner", "a colleague", "my neighbour", "my father", "a friend", "my brother", "my aunt"],
    "when": ["last night", "on Tuesday", "on Friday", "over the weekend", "yesterday", "after work", "in March"],
    "num": ["eight", "nine", "twelve", "fourteen", "sixteen", "eighteen", "twenty", "thirty"],
    "money": ["euros", "pounds", "dollars"],
    "player": ["the lead", "the whole cast", "the young lead", "the villain", "the supporting cast", "the two leads", "{name}",
               "{name}", "{name}", "the child actor"],
    "tune": ["score", "soundtrack", "singing", "piano theme", "string quartet", "choir", "melody", "title song", "orchestra"],
    "image": ["camera work", "photography", "colour palette", "costume design", "set design", "make-up", "lighting", "framing", "scenery",
              "computer animation", "production design"],
    "story": ["plot", "story", "storyline", "ending", "twist", "premise", "mystery", "script", "subplot", "finale"],
    "speed": ["slow", "rushed", "hurried", "unhurried", "sluggish", "brisk", "breathless", "drawn out", "leisurely"],
    "part": ["first hour", "middle", "second act", "last half hour", "opening", "final third"],
    "noise": ["sound mix", "dialogue track", "sound editing", "bass", "volume", "dubbing", "sound design", "sound system"],
    "place": ["a fishing village", "Lisbon", "a mining town", "wartime Cairo", "an oil rig", "Glasgow", "the Alps"],
}

FRAMES = {
    "acting": deal([
        "the acting is {judged}", "{player} gives a {good} performance", "{player} cannot act", "I believed {player} in every scene",
        "{player} overacts", "the performances are {judged}", "{player} is {judged} in the role", "{player} plays the widow",
        "you forget that {player} is acting", "{player} delivers the lines like a shopping list", "nobody but {player} could play this part",
        "the casting of {name} is {judged}", "{player} mumbles through the part", "as an actor {name} is {judged}",
        "{player} carries the role with ease", "the chemistry between {name} and {name} is {judged}",
        "{player} does so much with one look", "{player} was miscast", "{name}'s accent is {judged}", "a {good} turn by {name}",
        "a {bad} turn by {name}", "{player} earns every tear", "{name} as the judge is {judged}", "the ensemble plays well together",
        "{player} seems to have learned the part on the bus", "the acting, above all by {name}, is {judged}",
        "{player} steals the show", "{name} has never acted better", "I could watch {name} read a phone book",
        "{player} is stiff as a board",
    ]),
    "music": deal([
        "the {tune} is {judged}", "I hummed the {tune} all the way home", "the {tune} by {name} is {judged}", "they play the {tune} too often",
        "I bought the {tune} the next day", "the {tune} tells you what to feel", "the {tune} swells at the wrong moments",
        "a {good} {tune}", "a {bad} {tune}", "the {tune} is what I remember", "every song is {judged}", "a lone cello plays throughout",
        "the {tune} is borrowed from older films", "the composer, {name}, is {judged}", "the music is {judged}",
        "without the {tune} it would be another film", "the tunes are {judged}", "there is a {tune} in the chase, and it is {judged}",
        "whoever wrote the {tune} is {judged}", "the {tune} gave me goose bumps", "the {tune} got on my nerves",
        "listen to the {tune}", "the jazz in it is {judged}", "{name} sings, and the melody stays", "the {tune} fits",
        "the {tune} does not fit", "I could hear the {tune} again right away", "pop hits instead of a real {tune}",
        "the drums in the {tune} are {judged}", "the {tune} repeats itself",
    ]),
    "pacing": deal([
        "the pacing is {judged}", "the {part} is {speed}", "the {part} drags", "it never drags", "two hours felt like four",
        "two hours flew by", "it could lose half an hour", "it takes forever to get going", "the {part} feels {speed}",
        "I looked at my watch in the {part}", "the film is far too long", "the tempo is {speed}", "the rhythm of the {part} is {judged}",
        "it moves along at a {speed} pace", "they rush the {part}", "the {part} goes on and on", "not a minute too long",
        "at half the length it would work", "the {part} is over before you know it", "it loses momentum in the {part}",
        "it picks up speed after the {part}", "the {part} needs trimming", "the editing keeps things {speed}",
        "it slows to a crawl in the {part}", "the {part} whizzes past", "time stood still in the {part}", "it is {speed}, especially the {part}",
        "the length is {judged}", "a {speed} film", "everything happens in the {part}, too {speed} for me",
    ]),
    "plot": deal([
        "the {story} is {judged}", "the {story} makes no sense", "I saw the {story} coming", "the {story} took me by surprise",
        "I could not follow the {story}", "the {story} has holes", "a {good} {story}", "a {bad} {story}", "the {story} falls apart",
        "the {story} is borrowed from a better book", "it turns out that the butler did it", "a widow searches for a vanished brother in {place}",
        "the {story} set in {place} is {judged}", "what happens to the judge is {judged}", "the {story} ties everything together",
        "nothing in the {story} adds up", "the {story} is about a robbery in {place}", "the {story} by {name} is {judged}",
        "who did it is clear far too early", "the {story} hangs on a coincidence", "they leave the {story} open",
        "I am still thinking about the {story}", "the {story} could fit on a stamp", "the writers lost the thread of the {story}",
        "the characters have no reason for what they do", "the {story} is told backwards", "the {story} is the weak spot",
        "the {story} is the strong point", "I won't give away the {story}", "the {story} works",
    ]),
    "price": deal([
        "the ticket cost {num} {money}", "{num} {money} is too much", "{num} {money} well spent", "not worth {num} {money}",
        "worth the {num} {money}", "the price is {judged}", "I want my {num} {money} back", "for {num} {money} I expect more",
        "a ticket is {num} {money} these days", "it is cheap on Mondays", "far too expensive", "they charge {num} {money} for a seat",
        "a bargain at {num} {money}", "the popcorn was {num} {money}", "wait until it is on sale", "you get a lot for your money",
        "{who} paid {num} {money} extra for the big seats", "{num} {money} for this, honestly", "the rental costs {num} {money}",
        "students pay half", "my wallet is {num} {money} lighter", "I would pay {num} {money} to see it again",
        "with parking we paid {num} {money}", "the discount made it cheap", "the premium surcharge is {judged}",
        "it costs as much as a dinner", "{num} {money} each, and {who} had no coupon", "the tickets are overpriced",
        "the fee for booking is {judged}", "free with the subscription, so no cost to me",
    ]),
    "sound": deal([
        "the {noise} is {judged}", "the {noise} is far too loud", "I could not make out a word", "the {noise} was turned up too high",
        "the whispers are drowned by the {noise}", "the {noise} made the seats shake", "the {noise} crackled",
        "subtitles helped, since the {noise} is {judged}", "the {noise} at this cinema is {judged}", "a door slams behind you thanks to the {noise}",
        "the explosions hurt my ears", "the voices are hard to hear", "the {noise} deserves an award", "you hear every footstep",
        "the {noise} was out of sync", "bring ear plugs", "{who} could not hear the dialogue", "the {noise} is muffled",
        "the silence in it is louder than the {noise}", "the {noise} puts you in the middle of the storm", "a hum in the {noise}",
        "everything is whispered", "the {noise} is crisp", "wind, rain, steps: the {noise} is {judged}", "the {noise} was too quiet",
        "the {noise} fails in the crowd scenes", "the microphones must have been in another room", "the {noise} rattles",
        "the dubbed voices are {judged}", "the {noise} is clear as glass",
    ]),
    "visuals": deal([
        "the {image} is {judged}", "the {image} looks cheap", "the {image} takes your breath away", "every frame is a painting",
        "it looks {judged}", "the {image} by {name} is {judged}", "the 3D glasses gave {who} a headache", "the picture is too dark",
        "you can see the strings, so much for the {image}", "shot in {place}, and it shows", "the {image} is a feast for the eyes",
        "the close-ups are {judged}", "the shaky camera made me dizzy", "the dragon looks like a toy", "black and white suits it",
        "the snow scenes look {judged}", "a {good} eye for colour", "the {image} must have eaten the budget", "I could look at the {image} all day",
        "the images of {place} are {judged}", "the {image} is dated", "the monster is {judged} to look at", "the camera floats through {place}",
        "the {image} gleams", "the night shots are {judged}", "the wide shots of {place} are {judged}", "see it on a big screen for the {image}",
        "the green screen is easy to spot", "the {image} is stunning", "the {image} is ugly",
    ]),
}
NEUTRAL = deal([
    "saw it {when} with {who}", "{who} came along", "we went {when}", "I have nothing to add", "recommended by {who}",
    "I scored a seat in the last row", "{who} had a cold", "it rained {when}", "we talked about our holidays", "the queue was short",
    "I know {name} from school", "the cinema is near the station", "we sat in the front row", "{who} fell over the steps",
    "I write these {when}", "my first review here", "we met {name} at the door", "a day to remember", "the seats are red",
    "I liked it", "I did not like it", "overall it was {judged}", "a {good} evening", "it is what it is", "no comment",
    "{who} liked it more than I did", "we had dinner {when}", "the bus was late", "what a week", "that was that",
    "you will either like it or not", "just back from the cinema", "I saw it {when}", "the trailer was on television {when}",
    "my friends call me a fan", "the man in front of us wore a hat", "to each their own", "I will go again soon",
])
JOINS = [". ", ". ", ". ", ". ", ". ", "; ", ", and "]
POOLS = {**FRAMES, "neutral": NEUTRAL}


def write_row(rng: random.Random, split: str, labels: list[str]) -> tuple[str, set[str]]:
    """One text about exactly these aspects, and the frames it was made of."""
    w = Writer(rng, split, POOLS, WORDS, 0)
    kinds = list(labels) + ["neutral"] * (rng.randint(1, 3) if not labels else rng.choice([0, 0, 1, 1, 2]))
    rng.shuffle(kinds)
    text, said = "", set()
    for kind in kinds:
        clause = w.frame(kind)
        if clause in said:
            continue
        said.add(clause)
        text += (rng.choice(JOINS) if text else "") + clause
    return tidy(text + "."), w.frames


def generate(seed: int = SEED) -> tuple[list[list[str]], dict[str, set[str]]]:
    """All rows (text, labels, split) and the frames each split used."""
    rng, corpus = random.Random(seed), Corpus()

    def row(split: str, k: int) -> tuple[str, set[str], list[str]]:
        labels = sorted(rng.sample(LABELS, k))
        return *write_row(rng, split, labels), ["|".join(labels), split]

    for split in SPLITS:
        counts = [k for k, share in SHARES.items() for _ in range(round(share * SIZES[split]))]
        rng.shuffle(counts)
        for k in counts:
            corpus.add(split, lambda: row(split, k))
    return corpus.rows, corpus.frames


if __name__ == "__main__":
    main("aspects", ["text", "labels", "split"], generate()[0])
