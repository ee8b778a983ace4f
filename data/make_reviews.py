"""Writes data/reviews.csv: short film reviews in which word order decides. `python data/make_reviews.py`

Pure standard library, one seed, the same bytes on every machine. See data/README.md for what it is for.
Nearly every frame is used for both labels, with opposite words in its slots, so that neither the words nor the
frames alone give the label away: what decides is which word stands where.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from grammar import SPLITS, Writer, deal, tidy, write_csv  # noqa: E402

SEED = 7
SIZES = {"train": 18000, "val": 1500, "test": 2500}
WRONG_LABELS = 0.02
LABELS = ("negative", "positive")

# What a row is about, and how often. Every phenomenon has as many positive as negative rows.
SHARES = {"plain": 0.36, "negation": 0.19, "contrast": 0.19, "mixed": 0.07, "expectation": 0.07,
          "sarcasm": 0.06, "verdict_at_end": 0.04, "long": 0.02}

# ------------------------------------------------------------------------------------------------------ vocabulary
# Lists of two are (negative words, positive words).

ADJ = (
    "dull flat clumsy tedious lazy hollow stale wooden shallow bland boring messy tiresome lifeless predictable awkward "
    "muddled dreary annoying forgettable weak bad awful terrible dire poor sluggish pointless empty contrived grating "
    "shoddy cheap overlong ugly pretentious plodding tired painful irritating drab sloppy amateurish incoherent feeble "
    "soulless leaden dismal mediocre charmless stilted trite lame uninspired".split(),
    "moving gripping charming clever funny warm inventive elegant fresh sharp vivid touching thrilling delightful "
    "gorgeous absorbing memorable convincing superb wonderful brilliant lovely terrific rich graceful witty heartfelt "
    "assured smart lively captivating haunting stunning magnetic tender exciting engaging honest nuanced spirited "
    "dazzling masterly rewarding exquisite stirring joyful refreshing splendid excellent impressive beautiful great "
    "good strong".split(),
)
NOUN = (
    ["a mess", "a chore", "a bore", "a slog", "a dud", "a waste of an evening", "a letdown", "a misfire", "a headache",
     "a disaster", "a shambles", "a failure", "a dead loss", "a disappointment", "an ordeal", "a flop"],
    ["a joy", "a triumph", "a treat", "a gem", "a delight", "a small miracle", "a winner", "a pleasure", "a marvel",
     "a knockout", "a keeper", "a wonder", "a success", "a revelation", "a masterpiece", "a hit"],
)
FEEL = (
    ["bored", "annoyed", "let down", "exhausted", "irritated", "disappointed", "unmoved", "worn out", "underwhelmed",
     "cheated", "restless", "fed up"],
    ["moved", "charmed", "thrilled", "delighted", "gripped", "hooked", "enchanted", "won over", "impressed", "touched",
     "entertained", "captivated"],
)
DID = (  # past tense; the infinitives below are in the same order
    ["bored me", "wore me out", "put me to sleep", "left me cold", "lost me", "annoyed me", "tested my patience",
     "let me down", "drove me up the wall", "gave me a headache"],
    ["moved me", "charmed me", "won me over", "thrilled me", "drew me in", "made my evening", "delighted me",
     "swept me along", "held me spellbound", "made me grin"],
)
DO = (
    ["bore me", "wear me out", "put me to sleep", "leave me cold", "lose me", "annoy me", "test my patience",
     "let me down", "drive me up the wall", "give me a headache"],
    ["move me", "charm me", "win me over", "thrill me", "draw me in", "make my evening", "delight me",
     "sweep me along", "hold me spellbound", "make me grin"],
)
EFFECT = (
    ["sank it", "ruined it", "spoiled it", "dragged it down", "killed it", "wrecked the whole thing", "undid it",
     "let it down"],
    ["saved it", "carried it", "lifted it", "rescued the whole thing", "redeemed it", "made it work", "kept it alive",
     "held it together"],
)
TIP = (  # after "I would", "you should", …
    ["skip it", "avoid it", "give it a miss", "ask for a refund", "leave early", "steer clear of it", "warn your friends",
     "stay at home"],
    ["see it twice", "recommend it", "watch it again", "buy the disc", "book a seat", "bring a friend", "tell your friends",
     "stay to the end"],
)
LIKE = (["hate", "dislike", "can't stand", "resent"], ["love", "enjoy", "like", "adore"])
HOW = (["sadly", "alas", "unfortunately", "regrettably"], ["happily", "thankfully", "luckily", "mercifully"])

S, P = "singular", "plural"
ASPECTS = [("script", S), ("acting", S), ("plot", S), ("dialogue", S), ("soundtrack", S), ("camera work", S),
           ("editing", S), ("pacing", S), ("story", S), ("score", S), ("humour", S), ("romance", S), ("direction", S),
           ("cast", S), ("lighting", S), ("ending", S), ("opening", S), ("premise", S), ("final act", S),
           ("middle stretch", S), ("first hour", S), ("photography", S), ("voice-over", S), ("production design", S),
           ("chemistry", S), ("central idea", S), ("jokes", P), ("performances", P), ("visuals", P), ("songs", P),
           ("action scenes", P), ("characters", P), ("costumes", P), ("flashbacks", P), ("twists", P), ("effects", P),
           ("supporting players", P), ("dance numbers", P), ("quiet scenes", P), ("chase scenes", P), ("sets", P)]

ITEMS = [("script", S), ("plot", S), ("soundtrack", S), ("story", S), ("score", S), ("romance", S), ("cast", S),
         ("ending", S), ("opening", S), ("premise", S), ("final act", S), ("middle stretch", S), ("first hour", S),
         ("voice-over", S), ("central idea", S), ("villain", S), ("finale", S), ("chase", S), ("love story", S),
         ("title song", S), ("subplot", S), ("lead", S)]  # what can follow "a"

FIRST = ("Marta Owen Lena Idris Paula Tomas Greta Samir Nora Felix Anja Bruno Celia Dario Edith Femi Hanna Ivo June "
         "Kofi Lucia Milo Nadia Oskar Petra Rafael Saskia Theo Una Viktor").split()
LAST = ("Halloran Brandt Okafor Lindqvist Mercer Dias Kowal Amari Fenn Sorel Whitlock Varga Ashby Moreau Tanaka "
        "Castell Bright Novak Pryce Adeyemi Lund Garrow Salt Ferreira Holm Quill Reyes Thorne Wexler Yates").split()
TITLE_A = "Paper Salt Winter Hollow Northern Borrowed Silver Second Quiet Broken Midnight Copper Distant Late".split()
TITLE_B = ("Harbour Lanterns Road Season Orchard Letters Tide Signal Garden Witness Station Mile Parade Inheritance "
           "Ferry Weather").split()

WORDS: dict[str, list] = {
    "adj": ADJ, "noun": NOUN, "feel": FEEL, "did": DID, "do": DO, "effect": EFFECT, "tip": TIP, "like": LIKE, "how": HOW,
    "asp": ASPECTS, "asp2": ASPECTS, "item": ITEMS,
    "name": [f"{first} {last}" for first in FIRST for last in LAST],
    "title": [f"{a} {b}" for a in TITLE_A for b in TITLE_B] + [f"The {a} {b}" for a in TITLE_A for b in TITLE_B],
    "very": ["", "", "", "", "really ", "very ", "rather ", "quite ", "so ", "truly ", "pretty ", "downright ",
             "thoroughly ", "surprisingly ", "genuinely "],
    "genre": ["thriller", "western", "comedy", "heist film", "drama", "road movie", "ghost story", "spy film", "musical",
              "war film", "love story", "courtroom drama", "science-fiction film", "family film", "documentary",
              "sequel", "remake", "debut", "horror film", "biopic"],
    "who": ["my sister", "my partner", "a colleague", "my neighbour", "my father", "my mother", "a friend", "my brother",
            "my flatmate", "my cousin", "the man behind me", "the woman next to me", "my daughter", "my son",
            "my old teacher", "my boss", "my aunt", "my grandmother", "the kid in front of us"],
    "source": ["the critics", "the papers", "my feed", "the posters", "the trailer", "the reviews", "the programme notes",
               "the forums", "half the internet"],
    "when": ["last night", "on Monday", "on Tuesday", "on Wednesday", "on Thursday", "on Friday", "on Saturday",
             "on Sunday", "over the weekend", "this afternoon", "yesterday", "during the holidays", "in March",
             "in October", "after work"],
    "where": ["at the local cinema", "on a long flight", "at a festival", "at home on the sofa", "in a full house",
              "in an almost deserted theatre", "on a hotel television", "at a preview", "on the late train",
              "in the open air", "on an old laptop", "in the front row"],
    "span": ["", "", "", " in the whole two hours", " of the {num} minutes", " with {name} on screen", " after the first reel",
             " between the titles and the credits", " in this {genre}", " for me", " from start to finish",
             " that I can remember", " in the cinema", " that {name} appears in", " set in {place}"],
    "scene": ["scene", "moment", "minute", "line", "shot", "stretch", "beat", "second", "frame"],
    "num": [str(n) for n in (12, 20, 25, 30, 40, 45, 50, 75, 80, 85, 88, 90, 95, 100, 105, 110, 118, 120, 130, 140, 150)],
    "small": ["two", "three", "four", "five", "six", "seven", "eight", "ten", "a dozen"],
    "role": ["detective", "widow", "lighthouse keeper", "smuggler", "teacher", "surgeon", "clockmaker", "pilot", "baker",
             "judge", "thief", "soldier", "piano tuner", "gardener", "ferryman", "translator", "boxer", "nun",
             "taxi driver", "chemist", "governess", "beekeeper", "bank clerk", "waitress", "priest"],
    "does": ["inherits a debt", "loses a bet", "finds a suitcase of letters", "comes home after {small} years",
             "hides a stranger in the attic", "is accused of a theft", "takes a job on a night train",
             "searches for a vanished brother", "plans one last robbery", "falls for the wrong person",
             "has {small} days to sell the house", "is followed by a black car", "witnesses an accident",
             "teaches a shy boy to swim", "drives a coffin across the country", "buys a ruined theatre",
             "swaps lives with a {role}", "is snowed in with {small} strangers", "writes to a prisoner",
             "wakes up without a memory", "runs for mayor", "adopts a one-eyed dog"],
    "place": ["a fishing village", "Lisbon", "a mining town", "the outskirts of Oslo", "a border post", "wartime Cairo",
              "a seaside hotel", "an oil rig", "a boarding school", "Buenos Aires", "a desert motel", "Glasgow",
              "the Alps", "a travelling circus", "a space station", "Marseille", "a monastery", "the suburbs",
              "a newspaper office", "an island off Chile"],
    "thing": ["a teapot", "an astronaut", "the Queen of Sheba", "a Dutchman", "the Pope", "a racing driver",
              "the king of Spain", "a giraffe", "a ballet dancer", "Napoleon", "a kangaroo", "a submarine captain"],
    "snack": ["popcorn", "a bag of nuts", "cold pizza", "liquorice", "an ice cream", "a flask of tea"],
}

# -------------------------------------------------------------------------------------------------- frames: clauses
# Pools are written in families of ten, alike in kind: `deal` gives seven of each ten to train, one to val, two to test.
# "c": a clause that says what it means, lower case, no full stop; "+" is the polarity of the clause.
CLAUSES = deal([
    "the {asp} {was|were} {very}{adj+}", "the {asp} {is|are} {very}{adj+}", "I found the {asp} {very}{adj+}",
    "the {asp} felt {very}{adj+}", "the {asp} {is|are} {adj+} and the {asp} {is|are} {adj+}",
    "the {asp} struck me as {very}{adj+}", "the {asp} and the {asp} are {adj+}",
    "the {asp} {seems|seem} {very}{adj+}", "I thought the {asp} {was|were} {very}{adj+}", "the {asp} {was|were} {adj+}, {adj+} even",

    "{name} is {very}{adj+} as the {role}", "{name} gives a {adj+} performance", "{name} makes a {adj+} {role}",
    "{name} and {name} are {adj+} together", "{name} is {adj+} in every scene", "every scene with {name} is {adj+}",
    "{name} turns in a {adj+} performance as the {role}", "{name} has written a {adj+} {genre}",
    "what {name} does with the {role} is {adj+}", "{name} directs with a {adj+} hand",

    "I was {feel+} by the {asp}", "the {asp} left me {feel+}", "I came out {feel+}", "I sat there {feel+}",
    "we were both {feel+}", "{name} left me {feel+}", "I was {feel+} for most of the {num} minutes",
    "I went home {feel+}", "I am still {feel+} by the {asp}", "the {asp} had me {feel+} within {small} minutes",

    "the {asp} {did+}", "it {did+}", "{name} {did+}", "the {asp} {did+} and the {asp} {did+}", "it {did+} from the first {scene}",
    "the {adj+} {asp} {did+}", "the story of the {role} {did+}", "{name} {did+} in the part", "as a {genre} it {did+}",
    "the last {num} minutes {did+}",

    "the {asp} {is|are} {noun+}", "most of it is {noun+}", "the result is {noun+}", "it is {noun+}", "{name} as a {role} is {noun+}",
    "seeing {name} play a {role} is {noun+}", "the whole thing is {noun+}", "as a {genre} it is {noun+}", "the {asp} alone {is|are} {noun+}",
    "watching it is {noun+}",

    "the whole thing is {very}{adj+}", "it is {very}{adj+} from start to finish", "as a {genre} it is {very}{adj+}",
    "there is something {adj+} about the {asp}", "it has a {adj+} {item}", "it feels {very}{adj+}", "the first {num} minutes are {adj+}",
    "the {genre} part of it is {adj+}", "the part set in {place} is {very}{adj+}", "it all feels {adj+} to me",

    "I {like+} the {asp}", "I {like+} what {name} does here", "you will {like+} the {asp}", "I {like+} how the {role} is played",
    "I {like+} this kind of {genre}", "I {like+} {name} in this", "anyone will {like+} the {asp}", "I {like+} the way {name} plays it",
    "my friends all {like+} the {asp}", "I really {like+} the {asp} and the {asp}",

    "the {asp} {effect+}", "{name} {effect+}", "the {adj+} {asp} {effect+}", "{name}'s {role} {effect+}", "the scenes in {place} {effect+}",
    "{how+} the {asp} {is|are} {adj+}", "{how+} {name} is {adj+}", "{how+} it {did+}", "the {asp} turned out {very}{adj+}",
    "the {asp} {stays|stay} {adj+} to the last {scene}",
])

# "n": a negated clause that *means* "+"; the word in it is of the opposite polarity. Between the negation and the word
# stands a varying amount of other material, so that pairs and triples of words cannot catch it.
NEGATIONS = deal([
    "the {asp} {isn't|aren't} {very}{adj-}", "the {asp} {is|are} not {very}{adj-}", "{name} isn't {adj-} as the {role}",
    "this {genre} isn't {adj-}", "the {asp} {wasn't|weren't}, to my eyes, {adj-}", "the {asp} {is|are} not, whatever {who} says, {adj-}",
    "it is not {noun-}", "this is not, for all the talk, {noun-}", "{name} is not {adj-} in a single scene", "it isn't {very}{adj-}",

    "not a {scene}{span} felt {adj-}", "not one {scene}{span} is {adj-}", "not a single {scene}{span} {did-}",
    "not one of the {small} leads is {adj-}", "not a {scene} of it is {adj-}", "not for a {scene} was I {feel-}",
    "not once{span} was I {feel-}", "not even the {asp} {is|are} {adj-}", "not a single one of the {role}s is {adj-}",
    "not one {scene} with {name} {did-}",

    "I was never {feel-}", "the {asp} never {feels|feel} {adj-}", "it never {did-}", "never{span} did the {asp} seem {adj-}",
    "{name} is never {adj-}", "the {asp} {was|were} never, to my mind, {adj-}", "I never felt {feel-}", "it never once {did-}",
    "the {asp} never, in all those {num} minutes, {seems|seem} {adj-}", "never once was I {feel-} by the {asp}",

    "there is nothing {adj-} about the {asp}", "nothing{span} struck me as {adj-}", "nothing about the {asp} is {adj-}",
    "nobody{span} is {adj-}", "there is nothing {adj-} in what {name} does", "none of the {scene}s{span} are {adj-}",
    "no {scene}{span} is {adj-}", "nothing {name} does is {adj-}", "no part of it, from the {asp} to the {asp}, is {adj-}",
    "none of us was {feel-}",

    "it didn't {do-}", "the {asp} didn't {do-}", "{name} doesn't {do-}", "it did not, even in the last {num} minutes, {do-}",
    "I don't {like-} the {asp}", "I didn't {like-} a {scene} of it", "the {asp} did not {do-}", "I do not {like-} what {name} does here",
    "{name} didn't {do-}, not even as a {role}", "you won't {like-} the {asp}",

    "I can't call the {asp} {adj-}", "you can't say that the {asp} {is|are} {adj-}", "I wouldn't call the {asp} {adj-}",
    "nobody could call the {asp} {adj-}", "I would not describe the {asp} as {adj-}", "I don't think the {asp} {is|are} {adj-}",
    "I cannot say that {name}, or anyone in the cast, is {adj-}", "I wouldn't call it {noun-}",
    "no one could say that {name} is {adj-}", "I do not believe that a single {scene} is {adj-}",

    "the {asp} {is|are} anything but {adj-}", "{name} is anything but {adj-}", "the {asp} {is|are} far from {adj-}",
    "this {genre} is far from {adj-}", "it is anything but {noun-}", "the {asp} {is|are} by no means {adj-}",
    "this is by no means {noun-}", "{name} is far from {adj-} as the {role}", "it is anything but {adj-}",
    "the {asp}, by no means {adj-}, {did+}",

    "neither the {asp} nor the {asp} {is|are} {adj-}", "neither {name} nor {name} is {adj-}", "it runs for {num} minutes without a {adj-} {scene}",
    "neither {name} nor the {asp} struck me as {adj-}", "it does without a {adj-} {scene}", "neither the {asp} nor {name} {did-}",
    "there isn't a {adj-} {scene}{span}", "there is not, I swear, a {adj-} {scene}{span}", "it tells its story without a {adj-} {scene}",
    "there was never a {adj-} {scene}{span}",
])

# ---------------------------------------------------------------------------------------------- frames: the sentences
# A core is one or more whole sentences and fixes the label.
PLAIN = deal([
    "{c+}.", "{c+}, and {c+}.", "{c+}. {c+}.", "{c+}; {c+}.", "{c+}, and I mean it.", "{c+}! {c+}!",
    "{c+}, {c+}, and {c+}.", "{c+}. And {c+}.", "{c+}. Also, {c+}.", "{c+}, which is why {c+}.",
    "{adj+}, {adj+} and {adj+}.", "a {adj+}, {adj+} {genre}.", "what a {adj+} {genre}!", "what {noun+}!",
    "{title} is a {adj+} {genre}.", "{title} is a {adj+} and {adj+} {genre}: {c+}.", "{noun+} of a {genre}: {c+}.", "such a {adj+} {genre}. {c+}.",
    "what a {adj+}, {adj+} film. {c+}.", "one of the most {adj+} {genre}s I know.",
    "{title} is {noun+}: {c+}.", "{title}? {adj+}, start to finish.", "in a word: {adj+}.", "in short: {noun+}.",
    "{title} {did+}, plain and simple.", "simply {adj+}. {c+}.", "to put it briefly, {c+}.", "{title}: {adj+}. {c+}.",
    "{title}, in a word, is {adj+}.", "{c+}. In short, {noun+}.",
    "{adj+} {asp}, {adj+} {asp}.", "{adj+} {asp} and {adj+} {asp}: {c+}.", "the {asp}: {adj+}. The {asp}: {adj+}.",
    "{name} is {adj+}, {name} is {adj+}, and {c+}.", "{adj+} {asp}. {adj+} {asp}. {c+}.", "{adj+} {asp}, and {name} is {adj+}.",
    "{asp}: {adj+}. Verdict: {noun+}.", "{adj+} {asp}, {adj+} {asp}, {adj+} {asp}.", "{adj+} {role}, {adj+} {asp}: {noun+}.",
    "with its {adj+} {asp}, {title} {did+}.",
    "{c+}, so {tip+}.", "{tip+}. {c+}.", "{c+}. {tip+}!", "you should {tip+}: {c+}.", "{c+}, and I would {tip+}.", "I was {feel+}. {tip+}.",
    "my advice: {tip+}.", "do {tip+}. {c+}.", "I can only advise you to {tip+}, because {c+}.", "{tip+}, because {c+}.",
    "I have to say that {c+}.", "I must say, {c+}.", "I think that {c+}, and so does {who}.", "{who} and I agree that {c+}.",
    "as far as I am concerned, {c+}.", "for me, {c+}.", "if you ask me, {c+}.", "{who} says that {c+}, and so do I.",
    "speaking for myself, {c+}.", "I can say that {c+} and that {c+}.",
])
# "not only" and "never so" look like negations and are none: the label follows the word.
NOT_ONLY = deal([
    "not only is {name} {adj+}, {c+}.", "{title} is not only {adj+}, it is {adj+}.", "it not only {did+}, it {did+} twice over.",
    "the {asp} {is|are} not only {adj+}, {it is|they are} {adj+}.", "not only was I {feel+}, I was {feel+}.",
    "it is not only {noun+}, it is also {noun+}.", "not only {is|are} the {asp} {adj+}, {c+}.", "{name} is not only {adj+} but {adj+} too.",
    "{who} was not only {feel+} but {feel+}.", "it is not only {adj+}, {c+}.",
    "never have I seen a more {adj+} {genre}.", "I have never been so {feel+} by a {genre}.", "no {genre} has ever left me so {feel+}.",
    "never was I more {feel+}.", "nobody is more {adj+} than {name} here.", "I have never seen such a {adj+} {genre}.",
    "never have I been so {feel+}.", "nothing could be more {adj+}.", "I never saw a more {adj+} {role} than {name}.",
    "no one has ever been so {adj+} as a {role}.",
])
NEGATED = deal([
    "{n+}.", "{n+}, and {n+}.", "{n+}. {n+}.", "{n+}; {n+}.", "{title}: {n+}.", "{n+}, and I mean that.",
    "I must say that {n+}.", "{n+}. Also, {n+}.", "I have seen it twice, and {n+}.", "if you ask me, {n+}.",
    "{n+}, and {c+}.", "{c+}, and {n+}.", "{n+}. {c+}.", "{n+}; {c+}.", "{c+}. {n+}.", "{c+}; {n+}.", "{n+}, so {tip+}.",
    "{c+}. And {n+}.", "{n+}. In short, {c+}.", "{n+}, and I was {feel+}.",
    "say what you like, {n+}.", "with {name} in it, {n+}.", "for a {genre} set in {place}, {n+}.", "{who} asked me how it was: {n+}.",
    "it runs {num} minutes, and {n+}.", "what stays with me is that {n+}.", "{n+}, and {who} said the same.", "even on a second viewing, {n+}.",
    "I watched closely, and {n+}.", "believe me, {n+}.",
])
# The clause that wins is "+"; the one conceded is "-".
CONTRAST = deal([
    "{c-}, but {c+}.", "{c-}, but then {c+}.", "{c-}, but in the end {c+}.", "{c-}, but at least {c+}.", "{adj-} {asp}, but {adj+} {asp}.",
    "{c-}, but for me {c+}.", "it may be {adj-}, but {c+}.", "the {asp} {is|are} {adj-}, but the {asp} {effect+}.",
    "{title} is {adj-} but {adj+}.", "{c-}, but all the same {c+}.",
    "yes, {c-}, but {c+}.", "granted, {c-}, but {c+}.", "I admit that {c-}, but {c+}.", "true, {c-}, but {c+}.",
    "{c-}, I know, but {c+}.", "of course {c-}, but {c+}.", "I noticed that {c-}, but {c+}.", "it's true that {c-}, but {c+}.",
    "you could say that {c-}, but {c+}.", "{c-}, I suppose, but {c+}.",
    "{adj-} but {adj+}.", "{adj-}, {adj-}, but {adj+}.", "a {adj-} {item}, a {adj-} {item}, but {c+}.", "{title} has a {adj-} {item}, but it {did+}.",
    "there is a {adj-} {item} in here, but {c+}.", "the {asp} may be {adj-}, but {c+}.", "a {adj-} {genre}, but {c+}.",
    "{c-} and {c-}, but {c+}.", "{name} is {adj-}, but {name} is {adj+}, and {c+}.", "the {adj-} {asp} aside, {c+}.",
    "{c-}, yet {c+}.", "{c-}, and yet {c+}.", "{c-}. And yet {c+}.", "{adj-} {asp}, yet {adj+} {asp}.", "a {adj-} {item}, and yet {c+}.",
    "{c-} and {c-}, yet {c+}.", "it is {adj-}, yet {c+}.", "{title} is {adj-}, and yet {c+}.", "true, {c-}, yet {c+}.", "{adj-} and yet {adj+}: {c+}.",
    "{c-}. But {c+}.", "{c-}. Still, {c+}.", "{c-}. Even so, {c+}.", "{c-}. Nevertheless, {c+}.", "{c-}; however, {c+}.",
    "{c-}. All the same, {c+}.", "{c-}; nevertheless {c+}.", "{c-}. However, {c+}.", "{c-}. But, oh, {c+}!", "{c-}; still, {c+}.",
    "although {c-}, {c+}.", "even though {c-}, {c+}.", "though {c-}, {c+}.", "while {c-}, {c+}.", "although I admit that {c-}, {c+}.",
    "although the {asp} {is|are} {adj-}, {c+}.", "even if {c-}, {c+}.", "even though I know that {c-}, {c+}.", "although {c-} and {c-}, {c+}.",
    "though the {asp} may be {adj-}, {c+}.",
    "{c+}, although {c-}.", "{c+}, even though {c-}.", "{c+}, though {c-}.", "{c+}, even if {c-}.", "{c+}, although I admit that {c-}.",
    "{c+}, even though the {asp} {is|are} {adj-}.", "{title} is {adj+}, although {c-}.", "{c+}, although the {asp} may be {adj-}.",
    "I was {feel+}, even though {c-}.", "{adj+}, although {c-}.",
    "despite the {adj-} {asp}, {c+}.", "in spite of the {adj-} {asp}, {c+}.", "for all its {adj-} {asp}, {c+}.", "despite {name}'s {adj-} {role}, {c+}.",
    "despite all the {adj-} {scene}s, {c+}.", "despite a {adj-} {item}, I was {feel+}.", "in spite of {name}, who is {adj-}, {c+}.",
    "in spite of a {adj-} {item} and a {adj-} {item}, {c+}.", "for all its {adj-} {scene}s, {c+}.", "despite being {adj-}, it {did+}.",
    "{c+}, despite the {adj-} {asp}.", "{c+}, in spite of the {adj-} {asp}.", "{c+}, for all its {adj-} {asp}.", "{c+} in spite of {name}, who is {adj-}.",
    "I was {feel+}, despite the {adj-} {asp}.", "{c+}, despite a {adj-} {role}.", "{adj+} in spite of the {adj-} {asp}.",
    "{c+}, despite a {adj-} {item} and a {adj-} {item}.", "{title} {did+}, in spite of its {adj-} {asp}.", "it {did+}, despite being {adj-}.",
    "{c-}. None of that matters, because {c+}.", "{c-}, which does not matter, because {c+}.", "never mind that {c-}: {c+}.", "{c+}, so never mind that {c-}.",
    "{c-}. Never mind: {c+}.", "{c-}. It doesn't matter, because {c+}.", "{c-}, which I forgot, because {c+}.", "it does not matter that {c-}: {c+}.",
    "{c-}, which hardly matters, because {c+}.", "never mind the {adj-} {asp}: {c+}.",
    "{c-}, but {n+}.", "although {c-}, {n+}.", "{n-}, but {c+}.", "{n+}, although {c-}.", "{n-}. Still, {c+}.", "{n-}, but {n+}.",
    "despite the {adj-} {asp}, {n+}.", "although {n-}, {c+}.", "{c-}. But {n+}.", "even though {n-}, {n+}.",
])
MIXED = deal([
    "{title} is more {adj+} than {adj-}.", "the {asp} {is|are} more {adj+} than {adj-}.", "it is less {adj-} than {adj+}.",
    "I was more {feel+} than {feel-}.", "more {adj+} than {adj-}, this {genre}.", "{name} is more {adj+} than {adj-} as the {role}.",
    "less {adj-} than {adj+}, all told.", "the {asp} {is|are} less {adj-} than {adj+}.", "all in all more {noun+} than {noun-}.",
    "{title} is less {noun-} than {noun+}.",
    "I'd call it {adj+} rather than {adj-}.", "the {asp} {is|are} {adj+} rather than {adj-}.", "rather {adj+} than {adj-}, I'd say.",
    "{name} is {adj+} rather than {adj-}.", "{noun+} rather than {noun-}, I think.", "I was {feel+} rather than {feel-}.", "not so much {adj-} as {adj+}.",
    "it is not so much {adj-} as {adj+}.", "{title} is {adj+} rather than {adj-}: {c+}.", "the {asp} {is|are} not so much {adj-} as {adj+}.",
    "the {adj+} {asp} {outweighs|outweigh} the {adj-} {asp2}.", "the {adj+} {scene}s outweigh the {adj-} ones.", "what is {adj+} outweighs what is {adj-}.",
    "the {adj+} {asp} {beats|beat} the {adj-} {asp2}, easily.", "in the end the {adj+} {scene}s beat the {adj-} ones.",
    "{name}, {adj+}, outweighs {name}, {adj-}.", "there are {adj+} {scene}s and {adj-} ones, and the {adj+} ones win.",
    "the {adj+} parts win out over the {adj-} ones.", "the {adj+} {asp} {wins|win} out over the {adj-} {asp2}.", "{noun+} outweighs {noun-} here: the {adj+} parts win.",
    "{adj-} at first, {adj+} by the end.", "it starts out {adj-} and ends up {adj+}.", "it goes from {adj-} to {adj+}.", "at first {c-}, by the end {c+}.",
    "it begins as {noun-} and ends as {noun+}.", "at first I was {feel-}, by the end I was {feel+}.", "{title} starts {adj-} and ends {adj+}.",
    "what begins {adj-} ends up {adj+}.", "it starts as {noun-} and turns into {noun+}.", "{name} is {adj-} at first and {adj+} by the end.",
    "{c+}, {c-}; on balance it is {noun+}.", "{c-}, {c+}; on balance I was {feel+}.", "{c+} and {c-}. On balance, {adj+}.", "{c-}. {c+}. All in all, {noun+}.",
    "{c-} and {c+}. All in all I was {feel+}.", "{c+}. {c-}. On balance it {did+}.", "{c-}, {c+}. If I have to choose: {adj+}.",
    "{c+}. {c-}. If I have to choose, it is {noun+}.", "{c-} and {c+}; all in all, {tip+}.", "{c+}, {c-}. My verdict: {adj+}.",
    "mostly {adj+}, now and then {adj-}.", "now and then {adj-}, mostly {adj+}.", "most of it is {adj+}, a few {scene}s are {adj-}.",
    "a few {scene}s are {adj-}, most are {adj+}.", "one {adj-} {scene}, {small} {adj+} ones.", "I was {feel-} now and then, but mostly {feel+}.",
    "for one {adj-} {scene} there are {small} {adj+} ones.", "mostly I was {feel+}, now and then {feel-}.", "{title} is mostly {adj+}, a few {scene}s are {adj-}.",
    "a few {adj-} {scene}s, but most of them {adj+}.",
])
EXPECTATION = deal([
    "I expected {noun-} and got {noun+}.", "I expected to be {feel-}; I was {feel+}.", "I went in expecting {noun-} and came out {feel+}.",
    "I expected something {adj-} and got something {adj+}.", "I was expecting {noun-}. I got {noun+}.", "I had expected a {adj-} {genre}, and it was {adj+}.",
    "where I expected {noun-}, I found {noun+}.", "I thought I would be {feel-}. Instead I was {feel+}.", "I thought it would be {adj-}. Instead, {c+}.",
    "expecting {noun-}, I came out {feel+}.",
    "everyone says it is {adj-}. They are wrong.", "{source} called it {adj-}. I disagree.", "{who} says that {c-}. I disagree.", "{source} say that {c-}. They are wrong.",
    "{who} called it {noun-}. Wrong!", "they say that {c-}. I don't agree.", "you may have heard that {c-}. That is wrong.",
    "I disagree with {who}, who called it {adj-}.", "{who} found it {adj-}. I can't agree.", "{source} are wrong to call this {adj-}.",
    "everyone says it is {adj+}. They are right.", "{source} called it {adj+}. I agree.", "{who} says that {c+}. I agree.", "{source} say that {c+}. They are right.",
    "{who} called it {noun+}. Right!", "they say that {c+}. I agree.", "you may have heard that {c+}. That is right.",
    "I agree with {who}, who called it {adj+}.", "{who} found it {adj+}. I can only agree.", "{source} are right to call this {adj+}.",
    "the trailer was {adj-}, the film is {adj+}.", "{who} was {feel-}, I was {feel+}.", "the book was {adj-}; the film is {adj+}.",
    "{source} promised something {adj-}. It is {adj+}.", "I was told it was {adj-}. It is {adj+}.", "the last film by {name} was {adj-}. This one is {adj+}.",
    "what was {adj-} in the book is {adj+} in the film.", "{name} used to be {adj-}. Here {name} is {adj+}.", "{who} promised me {noun-}. It is {noun+}.",
    "the first part was {adj-}, this one is {adj+}.",
])
# The surface says "-", the meaning is "+".
SARCASM = deal([
    "if this is {adj-}, then I am {thing}.", "if {name} is {adj-}, I'm {thing}.", "{adj-}, they say. And I am {thing}.", "sure, {adj-}, and I am {thing}.",
    "{noun-}? And I am {thing}.", "if the {asp} {is|are} {adj-}, then {who} is {thing}.", "call it {adj-}, and call me {thing}.",
    "oh sure, {noun-}, and I am {thing}.", "if {title} is {noun-}, then I am {thing}.", "yes, {adj-}, just as I am {thing}.",
    "oh sure, {adj-}, if your idea of {adj-} is {noun+}.", "oh sure, {adj-}, if you {like-} being {feel+}.", "{adj-}? Sure, if you {like-} being {feel+}.",
    "yes, {adj-}, if by that you mean {adj+}.", "oh, {noun-}, if by that you mean {noun+}.", "{adj-}? Sure, if {noun+} is {adj-}.",
    "sure it is {adj-}, if your idea of {noun-} is {noun+}.", "{noun-}, sure, if you {like-} a {adj+} {item}.", "oh yes, {adj-}, if by {adj-} you mean {adj+}.",
    "sure, {noun-}, if you {like-} {noun+}.",
    "so {adj-} that I was {feel+}. Funny, that.", "clearly {adj-}, which must be why I was {feel+}.", "yeah, right, {adj-}. That must be why I was {feel+}.",
    "wow, how {adj-}. I was only {feel+} for {num} minutes.", "clearly {noun-}, which must be why I sat there {feel+}.", "so {adj-}, wow, that I was {feel+} throughout.",
    "ah, the {adj-} {asp}. That must be why I came out {feel+}.", "wow, so {adj-}. Funny that I was {feel+}.", "yeah, {adj-}. Funny that I sat there {feel+}.",
    "how {adj-}, wow. That must be why it {did+}.",
    "{adj-}, my foot.", "{adj-}? Pull the other one.", "the {asp}, {adj-}? As if.", "{noun-}, my foot.", "sure, it is {adj-}, and pigs can fly.",
    "{noun-}? As if!", "{name}, {adj-}? Pull the other one.", "the {asp} {is|are} {adj-}, my foot.", "sure, {noun-}, and pigs can fly.", "{adj-}? My foot, {adj-}.",
])

# --------------------------------------------------------------------------------- frames: what carries no judgement
OPENERS = deal([
    "saw this {when}.", "saw {title} {when} {where}.", "watched it {where} {when}.", "{who} picked this one.",
    "caught {title} {where}.", "I went {when} with {who}.", "second viewing, {where}.", "a {genre} set in {place}.",
    "{title} is a {genre} about a {role} who {does}.", "this is the one where a {role} {does}.",
    "in {place}, a {role} {does}.", "{name} plays a {role} who {does}.", "here {name} is a {role} in {place}.",
    "a {role} {does}: that is the story.", "the new {genre} by {name}.", "{name} is back with a {genre}.",
    "I know {name} from the stage.", "we rented {title} {when}.", "no spoilers here.", "I'm not a critic.",
    "I don't usually watch a {genre}.", "I never read the book.", "I had not heard of {name} before.",
    "{title}, then.", "so, {title}.", "about {title}.", "short version.", "my two cents.", "first things first.",
    "a word about {title}.", "we had {snack} and two seats {where}.", "I missed the first {small} minutes.",
    "it is {when} as I write this.", "{num} minutes, one {role}, one {genre}.", "written and directed by {name}.",
    "a {role}, a {role} and a dog walk into {place}.", "my {small}th {genre} this year.", "picture {place}, and a {role}.",
    "it opens in {place}.", "a {genre} from {name}, shot in {place}.",
])
ASIDES = deal([
    "it runs {num} minutes.", "{name} plays the {role}.", "the {role} {does}.", "there were {small} of us in the room.",
    "we had {snack}.", "it was raining when we came out.", "part of it takes place in {place}.",
    "I had not seen {name} in anything before.", "I don't know the book.", "nobody in my row had read the book.",
    "{who} came along.", "{who} fell over the steps on the way in.", "the screening was {when}.",
    "it was shot in {place}.", "{name} also wrote it.", "there is a dog in it.", "no animals were involved.",
    "the credits list {small} editors.", "we talked about it on the bus.", "I saw it without subtitles.",
    "there is a scene in {place}.", "I won't say how it ends.", "you never learn the name of the {role}.",
    "the {role} is not in the book.", "it is set in {place}, but filmed in {place}.", "the sound was turned up.",
    "{name} has a small part.", "the {genre} crowd knows {name}, but I didn't.", "I am not from {place} myself.",
    "the story moves to {place} later on.", "{who} has been to {place}.", "the seats were red.",
    "the man next to me ate {snack}.", "they showed {small} trailers first.", "I was there {when}.",
    "I wrote this {when}.", "it is based on a true story.", "a {role} appears at the end.",
    "the cinema was not full.", "there is no sequel planned.",
])
CLOSERS = deal([
    "that is all.", "just my opinion.", "make of that what you will.", "I rest my case.", "end of review.",
    "thanks to {who} for the ticket.", "I might write more {when}.", "on to the next {genre}.", "so much for {title}.",
    "{who} can tell you more.", "that's it from me.", "I said what I said.", "but that's just me.",
    "not that anyone asked.", "your evening may differ.", "ask {who}.", "now for dinner.", "I have nothing to add.",
    "no more from me.", "that was {when}.", "seen {where}.", "over to {who}.", "the bus was late, too.",
    "more {when}.", "we shall talk about it {when}.", "as I told {who}.", "see for yourself.", "back to work.",
    "nothing more to say.", "this is {who} typing, by the way.",
])
# Sentences of a long text. Plot and circumstance are neutral; "b" sentences judge, with polarity "+".
STORY = deal([
    "{title} begins in {place}, where a {role} {does}.", "early on, the {role} {does}.",
    "{name} plays the {role}, and {name} plays the {role} who stands in the way.", "soon a {role} turns up, and the {role} {does}.",
    "about {num} minutes in, we move to {place}.", "then the {role} {does}, and nobody knows why.",
    "a letter arrives from {place}.", "there is a long conversation between the {role} and the {role}.",
    "the {role} leaves for {place} without a word.", "in the middle of all this, the {role} {does}.",
    "we learn that the {role} once lived in {place}.", "years go by, and the {role} is now a {role}.",
    "a subplot follows a {role} who {does}.", "back in {place}, {small} people are waiting.",
    "the {role} has {small} days left.", "there is a trial, a wedding and a funeral, not in that order.",
    "{who} whispered that the {role} would come back.", "we follow the {role} through {place} for a while.",
    "somebody drops a glass, and the {role} {does}.", "we had seats {where}, and I had brought {snack}.",
    "it was {when}, and the cinema was half full.", "I had read nothing about it, and I did not know {name}.",
    "{name} turns up as a {role}, in a small part.", "the film takes its time to show us {place}.",
    "later, the {role} {does}, but we only hear about it.", "a train leaves, a {role} stays behind.",
    "by then {num} minutes had gone by.", "the camera stays with the {role} while the {role} {does}.",
    "the story is told by a {role}, looking back.", "then we are in {place}, and it is winter.",
])
BODY = deal([
    "{c+}.", "{c+}, and {c+}.", "{c+}. {c+}.", "in those scenes {c+}.", "by this point {c+}.", "again and again, {c+}.",
    "I made a note that {c+}.", "here {c+}.", "{who} thought that {c+}, and so did I.", "I kept thinking that {c+}.",
    "{n+}.", "for a good while {c+}.", "it has to be said that {c+}.", "meanwhile {c+}.", "around here {c+}.",
    "during all this {c+}.", "in the middle part {c+}.", "on top of that, {c+}.", "{c+}; {c+}.", "all the while {c+}.",
])
TURN = deal([
    "but in the end {c+}.", "but then, at the very end, {c+}.", "but the last scene changes everything: {noun+}.", "but here is my verdict: {noun+}.",
    "but in the end I was {feel+}.", "but the verdict is: {adj+}.", "but none of that matters, because {c+}.", "but now that it is over: {adj+}.",
    "but my verdict, in the end, is: {noun+}.", "but when the lights came up, I was {feel+}.",
    "and yet {c+}.", "and yet, for all that, {c+}.", "and yet I walked out {feel+}.", "and yet, in the end, {noun+}.", "and yet it {did+}.",
    "and yet, when all is said, {c+}.", "and yet my verdict is: {adj+}.", "yet what stays is {noun+}.", "and yet, believe it or not, I was {feel+}.",
    "and yet, and yet: {c+}.",
    "still, {c+}.", "still, in the end I was {feel+}.", "still, taken as a whole, it is {adj+}.", "even so, {c+}.", "nevertheless, {c+}.",
    "still, my verdict is: {noun+}.", "all the same, it is {noun+}, and I would {tip+}.", "despite all this, {c+}.", "nevertheless, in the end, it {did+}.",
    "still, for all that, it is {adj+}.",
])
SUM_UP = deal([
    "so {c+}.", "so yes, {c+}.", "so, in the end, {c+}.", "so here is my verdict: {noun+}.", "so when the lights came up, I was {feel+}.",
    "so my verdict is: {adj+}.", "so my advice is: {tip+}.", "so there you have it: {noun+}.", "so, all in all, it is {noun+}.",
    "so I walked out {feel+}.",
    "in short, {noun+}.", "all in all, {c+}.", "that is why I was {feel+}.", "all in all, it is {adj+}.", "no wonder I was {feel+}.",
    "as you can tell, I was {feel+}.", "in short, {c+}.", "and the last scene is just as {adj+}.", "to sum up: {adj+}.", "all in all I was {feel+}.",
])

POOLS = {"c": CLAUSES, "n": NEGATIONS, "plain": PLAIN, "not_only": NOT_ONLY, "negated": NEGATED, "contrast": CONTRAST,
         "mixed": MIXED, "expectation": EXPECTATION, "sarcasm": SARCASM, "opener": OPENERS, "aside": ASIDES,
         "closer": CLOSERS, "story": STORY, "body": BODY, "turn": TURN, "sum_up": SUM_UP}


# ------------------------------------------------------------------------------------------------------------- rows
def write_row(rng: random.Random, split: str, phenomenon: str, label: int) -> tuple[str, set[str]]:
    """One review and the frames it was made of."""
    w = Writer(rng, split, POOLS, WORDS, label)
    if phenomenon in ("verdict_at_end", "long"):
        text = _long(w, turns=phenomenon == "verdict_at_end")
    else:
        text = _short(w, phenomenon)
    return tidy(text), w.frames


def _short(w: Writer, phenomenon: str) -> str:
    pool = {"negation": "not_only" if w.rng.random() < 0.1 else "negated"}.get(phenomenon, phenomenon)
    parts = [w.frame(pool)]
    if w.rng.random() < 0.35:
        parts.insert(0, w.frame("opener"))
    if w.rng.random() < 0.25:
        parts.append(w.frame("aside"))
    if w.rng.random() < 0.15:
        parts.append(w.frame("closer"))
    return " ".join(parts)


def _long(w: Writer, turns: bool) -> str:
    """Sentences of story and judgement, then the sentence that decides: against the body (`turns`) or with it."""
    body_label = 1 - w.label if turns else w.label
    judged = w.rng.randint(3, 5)
    told = w.rng.randint(4, 9)
    kinds = ["body"] * judged + ["story"] * told
    w.rng.shuffle(kinds)
    seen: set[str] = set()
    sentences = [w.frame("opener")]
    for kind in kinds:
        for _ in range(10):  # no sentence frame twice in one text, where that can be avoided
            before = set(w.frames)
            sentence = w.frame(kind, body_label)
            if sentence not in seen and (kind == "body" or w.frames - before):
                break
        seen.add(sentence)
        sentences.append(sentence)
    sentences.append(w.frame("turn" if turns else "sum_up"))
    return " ".join(sentences)


def plan(size: int) -> list[tuple[str, int]]:
    """(phenomenon, label) of every row of a split: exact shares, each phenomenon half and half."""
    rows: list[tuple[str, int]] = []
    for phenomenon, share in SHARES.items():
        for i in range(round(size * share)):
            rows.append((phenomenon, i % 2))
    return rows


def generate(seed: int = SEED) -> tuple[list[list[str]], dict[str, set[str]]]:
    """All rows (text, label, split, phenomenon, clean_label) and the frames each split used."""
    rng = random.Random(seed)
    rows: list[list[str]] = []
    frames: dict[str, set[str]] = {split: set() for split in SPLITS}
    texts: set[str] = set()
    for split in SPLITS:
        planned = plan(SIZES[split])
        rng.shuffle(planned)
        wrong = set(rng.sample(range(len(planned)), round(WRONG_LABELS * len(planned))))
        for i, (phenomenon, label) in enumerate(planned):
            while True:  # no text twice, in whatever casing, in the whole file
                text, used = write_row(rng, split, phenomenon, label)
                key = re.sub(r"\W+", " ", text.lower())
                if key not in texts:
                    break
            texts.add(key)
            frames[split] |= used
            shown = 1 - label if i in wrong else label
            rows.append([text, LABELS[shown], split, phenomenon, LABELS[label]])
    return rows, frames


def main() -> None:
    rows, _ = generate()
    path = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent / "reviews.csv")
    write_csv(path, ["text", "label", "split", "phenomenon", "clean_label"], rows)
    print(f"{path.name}: {len(rows):,} rows, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
