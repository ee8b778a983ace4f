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
SIZES = {"train": 16000, "val": 1500, "test": 2500}
WRONG_LABELS = 0.02
LABELS = ("negative", "positive")

# What a row is about, and how often. Every phenomenon has as many positive as negative rows.
SHARES = {"plain": 0.29, "negation": 0.21, "contrast": 0.20, "mixed": 0.09, "expectation": 0.08,
          "sarcasm": 0.06, "verdict_at_end": 0.05, "long": 0.02}

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

FIRST = ("Marta Owen Lena Idris Paula Tomas Greta Samir Nora Felix Anja Bruno Celia Dario Edith Femi Hanna Ivo June "
         "Kofi Lucia Milo Nadia Oskar Petra Rafael Saskia Theo Una Viktor").split()
LAST = ("Halloran Brandt Okafor Lindqvist Mercer Dias Kowal Amari Fenn Sorel Whitlock Varga Ashby Moreau Tanaka "
        "Castell Bright Novak Pryce Adeyemi Lund Garrow Salt Ferreira Holm Quill Reyes Thorne Wexler Yates").split()
TITLE_A = "Paper Salt Winter Hollow Northern Borrowed Silver Second Quiet Broken Midnight Copper Distant Late".split()
TITLE_B = ("Harbour Lanterns Road Season Orchard Letters Tide Signal Garden Witness Station Mile Parade Inheritance "
           "Ferry Weather").split()

WORDS: dict[str, list] = {
    "adj": ADJ, "noun": NOUN, "feel": FEEL, "did": DID, "do": DO, "effect": EFFECT, "tip": TIP, "like": LIKE, "how": HOW,
    "asp": ASPECTS, "asp2": ASPECTS,
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
# "c": a clause of one polarity, lower case, no full stop. "+" is the polarity of the clause.
CLAUSES = deal([
    "the {asp} {was|were} {very}{adj+}", "the {asp} {is|are} {very}{adj+}", "I found the {asp} {very}{adj+}",
    "the {asp} felt {very}{adj+}", "the {asp} struck me as {adj+}", "{name} is {very}{adj+} as the {role}",
    "{name} gives a {adj+} performance", "the {asp} {did+}", "I was {feel+} by the {asp}",
    "the {asp} left me {feel+}", "the {asp} {is|are} {noun+}", "{name} directs with a {adj+} hand",
    "the whole thing is {very}{adj+}", "the {genre} plot is {adj+}", "watching it felt {adj+}",
    "{name} {did+}", "what {name} does with the {role} is {adj+}", "the {asp} {turns|turn} out {very}{adj+}",
    "I thought the {asp} {was|were} {very}{adj+}", "the {asp} {seems|seem} {adj+} to me",
    "the {asp} {looks|look} {adj+}", "every scene with {name} is {adj+}", "it has a {adj+} feel to it",
    "there is something {adj+} about the {asp}", "the part set in {place} is {adj+}",
    "I came out {feel+}", "the last {num} minutes are {adj+}", "the first {num} minutes {did+}",
    "most of it is {noun+}", "{name} makes the {role} {adj+}", "the {asp} {comes|come} across as {adj+}",
    "{name} and {name} are {adj+} together", "the {asp} and the {asp} are {adj+}",
    "the {asp}, by {name}, {is|are} {adj+}", "as a {genre} it is {adj+}", "as a {genre} it {did+}",
    "the {role} is {adj+} company", "I sat there {feel+}", "the {asp} had me {feel+} within {small} minutes",
    "the scenes in {place} are {very}{adj+}", "it {did+}", "it {did+} from the first {scene}",
    "the {asp} {is|are} {adj+} and the {asp} {is|are} {adj+}", "the {asp} {remains|remain} {adj+} to the end",
    "my verdict on the {asp} is {adj+}", "the {asp} kept me {feel+} all evening", "I am still {feel+} by the {asp}",
    "you get a {adj+} {genre}", "this {genre} is {very}{adj+}", "{name} wrote a {adj+} {genre}",
    "we were both {feel+}", "{who} and I found it {adj+}", "we all thought the {asp} {was|were} {adj+}",
    "the {adj+} {asp} {did+}", "so much of the {asp} {is|are} {adj+}", "everything {name} does is {adj+}",
    "the way the {role} {does} is {adj+}", "one {scene} with {name} left me {feel+}", "I {like+} the {asp}",
    "I {like+} what {name} does here", "I {like+} the idea of a {role} who {does}", "the {asp} {effect+}",
    "{name}'s {role} {effect+}", "{how+} the {asp} {is|are} {adj+}", "the result is {noun+}", "it all feels {adj+}",
    "seeing {name} play a {role} is {noun+}", "I would call the {asp} {adj+}", "I would call it {noun+}",
    "the second half is {very}{adj+}", "the {asp} {was|were}, to my taste, {adj+}",
    "in the part set in {place} the {asp} {was|were} {adj+}", "I think you should {tip+}", "I can only say I was {feel+}",
    "to me it was {noun+}", "for {num} minutes I was {feel+}", "{name} as a {role} is {noun+}",
    "the {asp} {deserves|deserve} to be called {adj+}", "I left the cinema {feel+}", "it ends on a {adj+} note",
])

# "n": a negated clause whose meaning has polarity "+"; the word in it is of the opposite polarity.
NEGATIONS = deal([
    "not a {scene}{span} felt {adj-}", "not one {scene}{span} is {adj-}", "not a single {scene}{span} {did-}",
    "I was never {feel-}", "I was not {feel-} once in {num} minutes", "at no point{span} was I {feel-}",
    "at no point did the {asp} feel {adj-}", "never{span} did the {asp} seem {adj-}",
    "there is nothing {adj-} about the {asp}", "there was nothing {adj-} in {name}'s performance",
    "nothing{span} struck me as {adj-}", "nothing about the {asp} is {adj-}", "nobody{span} is {adj-}",
    "nobody could call the {asp} {adj-}", "no one I know came out {feel-}", "I can't say the {asp} {was|were} {adj-}",
    "I could not call the {asp} {adj-}", "the {asp} {isn't|aren't} {adj-}", "the {asp} {wasn't|weren't} {very}{adj-}",
    "the {asp} {is|are} not {very}{adj-}", "the {asp} {is|are} anything but {adj-}", "{name} is anything but {adj-}",
    "the {asp} {is|are} far from {adj-}", "this {genre} is far from {adj-}", "the {asp} {is|are} hardly {adj-}",
    "{name} is hardly {adj-} as the {role}", "the {asp} didn't {do-}", "it did not {do-}, not even in the last {num} minutes",
    "{name} doesn't {do-}", "the {asp} {isn't|aren't}, whatever {who} says, {adj-}",
    "it is not, for all the talk, {adj-}", "I don't think the {asp} {is|are} {adj-}",
    "I do not believe a single {scene} is {adj-}", "no part of it, from the {asp} to the {asp}, felt {adj-}",
    "no {scene} set in {place} {did-}", "you won't find a {adj-} {scene} in it",
    "you will not be {feel-} by the {asp}", "the {asp} never {turns|turn} {adj-}", "the {asp} never {becomes|become} {noun-}",
    "it never once {did-}", "neither the {asp} nor the {asp} struck me as {adj-}",
    "neither {name} nor {name} is {adj-}", "it would be wrong to call the {asp} {adj-}",
    "it would be unfair to call this {noun-}", "it is hard to call any of it {adj-}",
    "I refuse to call this {genre} {adj-}", "I wouldn't describe the {asp} as {adj-}",
    "I would not say that {name}, or anyone in the cast, was {adj-}", "this {genre} isn't {noun-}",
    "this is not {noun-}", "this is by no means {noun-}", "the {asp} {is|are} by no means {adj-}",
    "nowhere{span} does it get {adj-}", "nowhere is the {asp} {adj-}", "I have never been less {feel-} by a {genre}",
    "without a {adj-} {scene}, it runs for {num} minutes", "it runs {num} minutes without a {adj-} {scene}",
    "not even the {asp} {was|were} {adj-}", "not even {name}, as the {role}, is {adj-}",
    "none of the {scene}s{span} are {adj-}", "none of us was {feel-}", "few {scene}s{span} are {adj-}",
    "hardly a {scene} goes by that is {adj-}", "hardly anyone{span} is {adj-}", "I don't {like-} the {asp}",
    "I didn't {like-} a {scene} of it", "you shouldn't {tip-}", "I wouldn't {tip-}", "don't {tip-}",
    "I can't call the {asp} {adj-}, nor the {asp}", "the {asp} {lacks|lack} anything {adj-}",
    "there isn't a {adj-} {scene}{span}", "there is not, I swear, a {adj-} {scene}{span}",
    "there was never a {scene}{span} that left me {feel-}", "I never felt {feel-}, whatever the {asp} did",
    "it avoids being {adj-}", "it stays clear of anything {adj-}", "the {asp} couldn't be less {adj-}",
    "{name} couldn't be less {adj-} in the part", "the {asp} cannot be called {adj-}",
])

# ---------------------------------------------------------------------------------------------- frames: the sentences
# A core is one or more whole sentences and fixes the label.
PLAIN = deal([
    "{c+}.", "{c+}, and {c+}.", "{c+}. {c+}.", "{adj+}, {adj+} and {adj+}.", "a {adj+}, {adj+} {genre}.",
    "{title} is {noun+}: {c+}.", "{title} is a {adj+} {genre}.", "in a word: {adj+}.", "{c+}, so {tip+}.",
    "what a {adj+} {genre}!", "what {noun+}!", "{noun+} of a {genre}: {c+}.", "{title}? {adj+}, start to finish.",
    "{c+} and I was {feel+}.", "{adj+} {asp}, {adj+} {asp}.", "{adj+} {asp} and {adj+} {asp}: {c+}.",
    "{tip+}. {c+}.", "I was {feel+}: {c+}.", "{title} {did+}, plain and simple.", "both {who} and I were {feel+}; {c+}.",
    "{c+}; {c+}.", "it's {adj+}. It's {adj+}. {tip+}.", "one of the most {adj+} {genre}s I know.",
    "{c+}, which left me {feel+}.", "{c+} because {c+}.", "a {genre} this {adj+} is rare. {c+}.",
    "the {asp}: {adj+}. The {asp}: {adj+}.", "if I had to pick one word for {title}, it would be {adj+}.",
    "{name} is {adj+}, {name} is {adj+}, and {c+}.", "{c+}. In short, {noun+}.",
])
# "not only" and its kin look like negations and are none: the label follows the word.
NOT_ONLY = deal([
    "{title} is not only {adj+}, it is {adj+}.", "not only {did+}, it {did+} twice.", "{c+}, no question.",
    "no doubt about it: {c+}.", "I can't deny that {c+}.", "never have I seen a more {adj+} {genre}.",
    "I have never been so {feel+} by a {genre}.", "nothing could be more {adj+}.", "{c+}, and not just a little.",
    "not only is the {asp} {adj+}, {c+}.", "there is no denying that {c+}.", "nobody is more {adj+} than {name}.",
    "no {genre} has ever left me so {feel+}.", "{c+}, and I don't say that lightly.", "it is nothing short of {adj+}.",
    "it is nothing if not {adj+}.", "I couldn't have been more {feel+}.", "{c+}, not that anyone was surprised.",
    "why it is not better known as {noun+}, I can't tell.", "you will not see a more {adj+} {genre} this year.",
])
NEGATED = deal([
    "{n+}.", "{n+}, and {n+}.", "{n+}. {n+}.", "{n+}, and {c+}.", "{c+}, and {n+}.", "{title}: {n+}.",
    "I have seen it twice now and {n+}.", "say what you like, {n+}.", "{n+}. {c+}.", "{n+}; {c+}.",
    "let me be clear: {n+}.", "{n+}, and that is rare for a {genre}.", "{n+}, so {tip+}.",
    "with {name} in it, {n+}.", "{who} asked me how it was: {n+}.", "{c+}; {n+}.", "all I know is that {n+}.",
    "for a {genre} set in {place}, {n+}.", "two things. {n+}. {n+}.", "it runs {num} minutes and {n+}.",
    "{n+}, which says something about {name}.", "I watched closely and {n+}.", "even on a second viewing {n+}.",
    "what stays with me is that {n+}.", "{n+}, I promise.", "believe me, {n+}.", "{n+}, and {who} said the same.",
    "I must say that {n+}.", "in my book {n+}.", "whatever else it is, {title} is not {adj-}.",
])
# The clause that wins is "+"; the one conceded is "-".
CONTRAST = deal([
    "{c-}, but {c+}.", "{c-}, yet {c+}.", "{c-}. But {c+}.", "{c-}, but at least {c+}, and that is what I went for.",
    "{c+}, although {c-}.", "although {c-}, {c+}.", "even though {c-}, {c+}.", "{c+}, even if {c-}.",
    "despite the {adj-} {asp}, {c+}.", "{c+}, despite the {adj-} {asp}.", "{adj-} {asp}, but {adj+} {asp}.",
    "{adj-} but {adj+}.", "for all its {adj-} {asp}, {c+}.", "{c-}. Still, {c+}.", "{c-}; however, {c+}.",
    "{c-}, and yet {c+}.", "yes, {c-}, but {c+}.", "granted, {c-}. But {c+}.", "I admit that {c-}, but {c+}.",
    "true, {c-}, yet {c+}.", "while {c-}, {c+}.", "{c+}, though {c-}.", "though {c-}, {c+}.",
    "in spite of the {adj-} {asp}, {c+}.", "{c+}, in spite of {name}'s {adj-} {role}.",
    "the {asp} {was|were} {adj-}, but the {asp} {effect+}.", "{adj-} {asp}, {adj-} {asp}, but {c+}.",
    "{c-}. None of that matters, because {c+}.", "{c-}, but that hardly matters: {c+}.",
    "{c-}. Even so, {c+}.", "{c-}, but in the end {c+}.", "sure, {c-}. It doesn't matter; {c+}.",
    "{c+}, and the {adj-} {asp} can't change that.", "{c+}. The {adj-} {asp} did nothing to change that.",
    "{title} has a {adj-} {asp}, but it {did+}.", "a {adj-} {asp}, a {adj-} {asp}, and yet {c+}.",
    "on paper {c-}; on screen {c+}.", "you could complain that {c-}, but you would forget that {c+}.",
    "{adj-} as the {asp} {is|are}, {c+}.", "however {adj-} the {asp} may be, {c+}.",
    "no matter that {c-}: {c+}.", "{c-}. All the same, {c+}.", "{c-}, but {how+} {c+}.", "{how-} {c-}. {how+} {c+}, and that decides it.",
    "it may be {adj-}, but it is also {adj+}, and {c+}.", "at first {c-}, but then {c+}.",
    "people say that {c-}, and they are right, but {c+}.", "{c-}, {n-}, but {c+}.",
    "I could live with the fact that {c-}, because {c+}.", "{c+}, so never mind that {c-}.",
    "that {c-} is true, but {c+}.", "{c+}, for all that {c-}.", "{c+} in the face of a {adj-} {asp}.",
    "what {adj-} {asp}! And yet {c+}.", "{c-}. Nevertheless {c+}.", "{c-}, nevertheless {c+}.",
    "the {asp} may have been {adj-}; the {asp} {effect+}.", "{c-}, but {n+}.", "{n-}, but {c+}.",
    "although {n-}, {c+}.", "{n+}, although {c-}.", "not even a {adj-} {asp} could stop it: {c+}.",
    "well {adj-}, I suppose, but {c+}.", "a {adj-} {genre}, saved or sunk by one thing: {c+}.",
    "critics will point at the {adj-} {asp}, but {c+}.", "I noticed the {adj-} {asp}, of course, but {c+}.",
    "{c-}, but who cares when {c+}?", "much as {c-}, {c+}.", "there is a {adj-} {asp} in here, but {c+}.",
    "once you forget that {c-}, and you will, {c+}.",
])
MIXED = deal([
    "{title} is more {adj+} than {adj-}.", "the {asp} {is|are} more {adj+} than {adj-}, and {who} agrees.",
    "less {adj-} than {adj+}, this {genre}.", "it is less {adj-} than {adj+}.",
    "the {adj+} {asp} {outweighs|outweigh} the {adj-} {asp2}.", "the {asp2}, {adj-}, {is|are} outweighed by the {asp}, {adj+}.",
    "{c+}, {c-}; on balance it is {noun+}.", "{c-}, {c+}; on balance it is {adj+}.",
    "{c+} and {c-}. On balance I was {feel+}.", "{c-} and {c+}. All things considered, {noun+}.",
    "I'd call it {adj+} rather than {adj-}.", "rather {adj+} than {adj-}, I'd say.",
    "it goes from {adj-} to {adj+} and stays there.", "it starts out {adj-} and ends up {adj+}.",
    "{adj-} at first, {adj+} by the end.", "the {adj+} parts win out over the {adj-} ones.",
    "not so much {adj-} as {adj+}.", "the {asp} {is|are} not so much {adj-} as {adj+}.",
    "it {did+} far more often than it {did-}.", "for every {adj-} {scene} there are {small} {adj+} ones.",
    "one {adj-} {scene} against {small} {adj+} ones.", "part of me was {feel-}, the larger part was {feel+}.",
    "I will remember the {adj+} {asp} long after the {adj-} {asp2}.",
    "I was {feel-} now and then, {feel+} the rest of the time.", "the {adj-} {asp} {gives|give} way to something {adj+}.",
    "what was {adj-} in the book is {adj+} on the screen.", "{name} turns a {adj-} {role} into something {adj+}.",
    "somewhere between {noun-} and {noun+}, but closer to {noun+}.", "half {noun-}, half {noun+}; the better-made half is {noun+}, and it wins.",
    "a few {scene}s are {adj-}, most are {adj+}.", "now and then {adj-}, mostly {adj+}.",
    "mostly {adj+}, occasionally {adj-}.", "largely {adj+}, with a {adj-} {scene} here and there.",
    "the {asp} {is|are} {adj-}, the {asp} {is|are} {adj+}, and the second counts for more.",
    "the {asp} {is|are} {adj+}, the {asp} {is|are} {adj-}, and the first counts for more.",
    "{c-} for {small} minutes; after that {c+}.", "{c-}. {c+}. If I have to choose, {noun+}.",
    "{who} complained about the {adj-} {asp}, I thought of the {adj+} {asp2} and was {feel+}.",
    "the {noun+} in it beats the {noun-} in it.", "ends {adj+} after starting {adj-}.",
    "once {adj-}, now {adj+}: it grew into {noun+}.", "you forgive the {adj-} {asp} or you don't. {c+}.",
])
EXPECTATION = deal([
    "I expected {noun-} and got {noun+}.", "I went in expecting {noun-} and came out {feel+}.",
    "{who} warned me it would be {adj-}. It turned out {adj+}.", "everyone says it is {adj-}. I disagree.",
    "{source} called it {adj-}. They are wrong.", "from the poster I thought it would be {adj-}. I was wrong.",
    "it was {adj+}, not the {adj-} {genre} I had been promised.", "the poster promises something {adj-}, the film delivers something {adj+}.",
    "{who} told me it was {adj+}, and {who} was right.", "{source} called it {adj+}, and I agree.",
    "I was told to expect {noun-}; what I saw was {noun+}.", "{who} was {feel-}. I was {feel+}.",
    "{who}, who found it {adj-}, must have seen another film: {c+}.", "where others see something {adj-}, I see something {adj+}.",
    "they told me I would be {feel-}. I was {feel+}.", "I had feared or hoped for many things, {noun-} among them. I got {noun+}.",
    "what looked {adj-} in the trailer is {adj+} on the big screen.", "the book was {adj-}; the film is {adj+}.",
    "the first {genre} by {name} was {adj-}. This one is {adj+}.", "{name} used to be {adj-}. Here {name} is {adj+}.",
    "{source} keep saying that {c-}. Don't listen: {c+}.", "{source} say that {c-}. Not so.",
    "{who} says that {c-}. I don't see it.", "{who} says that {c+}, and I can only nod.",
    "I was sure I'd be {feel-}, and I could not have been more mistaken.", "I was ready to say that {c-}. Instead, {c+}.",
    "I would have bet that it was {noun-}. I would have lost.", "anyone who calls this {adj-} has not been paying attention.",
    "I can't agree with {who}, who was {feel-} by it.", "I agree with {who}, who was {feel+} by it.",
    "I thought I'd be {feel-} by now. Instead I am {feel+}.", "the rumour is that {c-}. The truth is that {c+}.",
    "they say {adj-}, I say {adj+}.", "you may have heard that {c-}. You heard wrong.",
    "you may have heard that {c+}. You heard right.", "unlike {who}, I was {feel+}, not {feel-}.",
    "compared with the {adj-} first film, this one is {adj+}.", "{source} promised something {adj-} and were proved wrong.",
    "it replaced my idea of a {adj-} {genre} with a {adj+} one.", "my guess was {noun-}. The answer was {noun+}.",
])
# The surface says "-", the meaning is "+".
SARCASM = deal([
    "oh sure, {adj-}, if your idea of {adj-} is {noun+}.", "{adj-}? Sure, if you {like-} being {feel+}.",
    "yeah, right, {adj-}. That must be why I was {feel+}.", "wow, how {adj-}. I was only {feel+} for {num} minutes.",
    "clearly {adj-}, which must be why I sat there {feel+}.", "so {adj-} that I was {feel+} within {small} minutes. Funny, that.",
    "yes, because nothing says {adj-} like {noun+}.", "if this is {adj-}, then I am {thing}.",
    "{adj-}, they say. Right, and I am {thing}.", "if {name} is {adj-}, I'm {thing}.", "{adj-}, my foot.",
    "tell me again how {adj-} the {asp} {is|are}. I could use a laugh.", "oh yes, terribly {adj-}, and I am {thing}.",
    "sure, call it {adj-}, and call me {thing}.", "how very {adj-} of {name} to leave me {feel+}.",
    "ah, the famous {adj-} {asp}. That explains why I was {feel+}.", "{noun-}? Of course, and I am {thing}.",
    "{noun-}, sure, for people who {like-} a {adj+} {asp}.", "oh, so {adj-}. Next you'll tell me I am {thing}.",
    "if the {asp} {is|are} {adj-}, then {who} is {thing}.", "obviously {noun-}, as anyone who was {feel+} will tell you.",
    "right, {noun-}. And the moon is made of cheese.", "{adj-}, you say? Pull the other one.",
    "sure, the {asp} {is|are} {adj-}, and pigs can fly.", "congratulations to whoever called this {adj-}: I was {feel+}, thanks for asking.",
    "oh great, another {adj-} {genre}, as if being {feel+} were the same thing.", "{adj-}, as they like to say. As if.",
    "the {asp} {is|are} {adj-}? In what universe?", "of course it's {adj-}, and of course I am {thing}.",
    "what could be more {adj-} than being {feel+} for {num} minutes, right?",
    "yes, {adj-}, the way {noun+} is {adj-}.", "{adj-}, sure. Someone please tell my face, which looked {feel+}.",
    "I suppose {adj-} is the new word for {adj+}.", "apparently {adj-} now means {adj+}.",
    "oh no, only {adj-} if you mean {adj+}.", "they must have spelled {adj+} wrong when they wrote {adj-}.",
    "{adj-}? Only if the dictionary has changed its mind about {adj+}.", "{adj-} is one way to spell {adj+}, I guess.",
    "sure it's {adj-}, in the sense that I was {feel+} throughout.", "{noun-}, if by that you mean {noun+}.",
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
    "{c+}.", "{c+}, and {c+}.", "{n+}.", "in those scenes {c+}.", "by this point {c+}.", "throughout, {c+}.",
    "I made a note that {c+}.", "again and again, {c+}.", "here {c+}.", "for a good while {c+}.",
    "{who} thought that {c+}, and so did I.", "it has to be said that {c+}.", "meanwhile {c+}.", "I kept thinking that {c+}.",
    "during all this {c+}.", "around here {c+}.", "in the middle part {c+}.", "as for {name}, {c+}.",
    "on top of that, {c+}.", "{c+}; {c+}.",
])
TURN = deal([
    "and yet, for all that, {c+}.", "still, in the end I was {feel+}.", "but the last scene turned all of it around: it is {noun+}.",
    "and then comes the finale, and everything changes: {noun+}.", "but here is my verdict: {noun+}.",
    "in the end, none of that counts: {c+}.", "and yet I walked out {feel+}.", "but then, finally, {c+}.",
    "all of which I forgot in the last {small} minutes, which are {adj+}.", "even so, my verdict is: {adj+}.",
    "but I changed my mind on the way home: it was {noun+}.", "still, taken as a whole, it is {adj+}.",
    "so you may be surprised to hear that I was {feel+}.", "nevertheless, when the lights came up, I was {feel+}.",
    "but all of that is forgotten when the {asp} finally {did+}.", "and still the final word has to be: {noun+}.",
    "but in the last {num} minutes it all falls into place, and the whole is {adj+}.", "yet what stays is {noun+}.",
    "but ask me today and I will say: {noun+}.", "forget all that: you should {tip+}.",
    "but take it from me: {tip+}.", "and yet, believe it or not, {c+}.", "however, the ending made up my mind: {noun+}.",
    "but a week later I know that it was {noun+}.", "for all that, the film as a whole is {very}{adj+}.",
    "despite everything I have said, {c+}.", "in spite of all this, I was {feel+}.", "and still, it {did+}.",
    "but none of it matters in the end, because I was {feel+}.", "all the same, it is {noun+}, and I would {tip+}.",
])
SUM_UP = deal([
    "so yes, {c+}.", "in short, {noun+}.", "that is why I was {feel+}.", "all in all, it is {noun+}.",
    "so my advice is: {tip+}.", "and so it goes on to the end, {adj+} as ever.", "no surprise, then, that I was {feel+}.",
    "as you can tell, I was {feel+}.", "to sum up: {adj+}.", "it stays like that to the last scene: {c+}.",
    "and the ending is just as {adj+}.", "so there you have it: {noun+}.", "what more can I say: {noun+}.",
    "I left {feel+}, of course.", "taken together, {noun+}.", "the final scene is no different: {adj+}.",
    "therefore: {tip+}.", "my verdict, then: {adj+}.", "the end {did+} as well.", "that makes it {noun+}.",
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
    pool = {"negation": "not_only" if w.rng.random() < 0.12 else "negated"}.get(phenomenon, phenomenon)
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
    path = Path(__file__).resolve().parent / "reviews.csv"
    write_csv(path, ["text", "label", "split", "phenomenon", "clean_label"], rows)
    print(f"{path.name}: {len(rows):,} rows, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
