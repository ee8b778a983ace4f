"""Writes data/reviews.csv: short film reviews in which word order decides. `python data/make_reviews.py`

Pure standard library, one seed, the same bytes on every machine. See data/README.md for what it is for.
Nearly every frame is used for both labels, with opposite words in its slots, so that neither the words nor the
frames alone give the label away: what decides is which word stands where.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from grammar import SPLITS, Corpus, Writer, deal, main, tidy  # noqa: E402

SEED = 7
SIZES = {"train": 24000, "val": 1500, "test": 2500}
WRONG_LABELS = 0.02
LABELS = ("negative", "positive")

# What a row is about, and how often. Every phenomenon has as many positive as negative rows.
SHARES = {"plain": 0.66, "negation": 0.13, "contrast": 0.10, "mixed": 0.025, "expectation": 0.03,
          "sarcasm": 0.02, "verdict_at_end": 0.02, "long": 0.015}

# ------------------------------------------------------------------------------------------------------ vocabulary
# Lists of two are (negative words, positive words).

ADJ = (
    "dull flat clumsy tedious hollow stale wooden shallow bland boring tiresome lifeless predictable awkward "
    "muddled dreary annoying forgettable weak bad awful terrible dire poor pointless empty contrived grating "
    "shoddy cheap ugly pretentious plodding tired painful irritating incoherent feeble "
    "soulless leaden dismal mediocre charmless stilted lame uninspired".split(),
    "moving gripping charming clever funny warm inventive elegant fresh sharp vivid touching thrilling delightful "
    "gorgeous absorbing memorable convincing superb wonderful brilliant lovely terrific rich graceful witty heartfelt "
    "assured smart lively captivating haunting stunning tender exciting engaging honest "
    "dazzling stirring joyful refreshing splendid excellent impressive beautiful great "
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
LIKE = (["hate", "dislike", "loathe", "despise"], ["love", "enjoy", "like", "adore"])
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
    "hedge": ["to be honest", "frankly", "I think", "for me", "to my mind", "in my book", "if you ask me", "I have to say",
              "as I see it", "in all honesty", "it seems to me", "truth be told", "I would say", "by my lights",
              "as far as I can tell", "I must say", "in my opinion", "to tell the truth", "personally", "honestly"],
    "very": ["", "", "", "", "really ", "very ", "rather ", "quite ", "so ", "truly ", "pretty ", "downright ",
             "thoroughly ", "surprisingly ", "genuinely "],
    "genre": ["thriller", "western", "comedy", "heist film", "drama", "road movie", "ghost story", "spy film", "musical",
              "war film", "love story", "courtroom drama", "science-fiction film", "family film", "documentary",
              "sequel", "remake", "debut", "horror film", "biopic"],
    "who": ["my sister", "my partner", "a colleague", "my neighbour", "my father", "my mother", "a friend", "my brother",
            "my flatmate", "my cousin", "the man behind me", "the woman next to me", "my daughter", "my son",
            "my old teacher", "my boss", "my aunt", "my grandmother", "the kid in front of us"],
    "source": ["the critics", "the papers", "the posters", "the trailers", "the reviews", "the programme notes",
               "the forums", "my colleagues", "my friends", "the blogs"],
    "when": ["last night", "on Monday", "on Tuesday", "on Wednesday", "on Thursday", "on Friday", "on Saturday",
             "on Sunday", "over the weekend", "this afternoon", "yesterday", "during the holidays", "in March",
             "in October", "after work"],
    "where": ["at the local cinema", "on a long flight", "at a festival", "at home on the sofa", "in a full house",
              "in an almost deserted theatre", "on a hotel television", "at a preview", "on the late train",
              "in the open air", "on an old laptop", "in the front row"],
    "span": ["", "", "", " in the whole two hours", " of the {num} minutes", " with {name} on screen", " after the first reel",
             " between the titles and the credits", " in this {genre}", " for me", " from start to finish",
             " that I can remember", " in the cinema", " that {name} appears in", " set in {place}"],
    "adv": ["", "", "", " in the whole two hours", " in those {num} minutes", " with {name} on screen", " after the first reel",
            " between the titles and the credits", " in this {genre}", " from start to finish", " in the cinema",
            " on the big screen", " the second time round"],
    "scene": ["scene", "moment", "minute", "line", "shot", "stretch", "beat", "second", "frame"],
    "num": [str(n) for n in (12, 20, 25, 30, 40, 45, 50, 75, 80, 85, 88, 90, 95, 100, 105, 110, 118, 120, 130, 140, 150)],
    "small": ["two", "three", "four", "five", "six", "seven", "eight", "ten", "a dozen"],
    "role": ["detective", "widow", "lighthouse keeper", "smuggler", "teacher", "surgeon", "clockmaker", "pilot", "baker",
             "judge", "thief", "soldier", "piano tuner", "gardener", "ferryman", "translator", "boxer", "nun",
             "taxi driver", "chemist", "housekeeper", "beekeeper", "bank clerk", "waitress", "priest"],
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
    "most of us {like+} the {asp}", "I really {like+} the {asp} and the {asp}",

    "the {asp} {effect+}", "{name} {effect+}", "the {adj+} {asp} {effect+}", "{name}'s {role} {effect+}", "the scenes in {place} {effect+}",
    "{how+} the {asp} {is|are} {adj+}", "{how+} {name} is {adj+}", "{how+} it {did+}", "the {asp} turned out {very}{adj+}",
    "the {asp} {stays|stay} {adj+} to the last {scene}",
], train=[
    "I thought {name} was {very}{adj+}", "{who} thought the {asp} {was|were} {adj+}",
    "we all thought it {very}{adj+}", "we sat there {feel+}", "{who} sat there {feel+}", "the {asp} alone {did+}",
    "{name} alone {effect+}", "there was something {adj+} in the {asp}", "it has something {adj+} about it",
    "something about {name} {did+}", "I {like+} how it is told", "I {like+} seeing {name} as a {role}",
    "{name}'s performance is {adj+}", "{name}'s {genre} is {noun+}", "{name}'s {asp} {did+}",
    "the {asp} turned {very}{adj+} after a while", "it turned out {noun+}", "every {scene} is {adj+}",
    "every {scene} of it {did+}", "everything about it is {adj+}", "everything {name} does is {adj+}",
    "seeing it was {noun+}", "the {asp} struck {who} as {adj+}", "it struck me as {very}{adj+}",
    "you could call the {asp} {adj+}", "one could call it {noun+}", "the {asp} seemed {adj+}",
    "{name} seems {adj+} here", "it seems {adj+} to me", "it was, {hedge}, {adj+}",
    "the {asp} {was|were}, {hedge}, {very}{adj+}", "{name} is, {hedge}, {adj+} as the {role}",
    "the {asp} would {do+}", "it would {do+} every time", "the {asp} {does|do} {do+}", "{name} managed to {do+}",
    "I would {tip+}", "you should {tip+}", "the {adj+} {asp} of this {genre} {did+}",
    "being {feel+} by {name} was easy", "it takes {small} minutes to be {feel+}", "the {asp} could {do+}",
    "the {genre} turns {adj+} in {place}",
    "it felt {very}{adj+}", "watching {name} felt {adj+}", "the {asp} felt {adj+} to {who}", "all of it felt {adj+}",
    "{name} and {name}, together, are {noun+}", "together, {name} and {name} {did+}",
    "{name} and {name} sing together, and it is {noun+}", "the {asp} and the {asp} together are {noun+}",
    "what {name} brings to it is {adj+}", "what I saw was {noun+}", "what you get is {noun+}",
    "the scene with {name} is {adj+}", "the {role}, with {name} in the part, is {adj+}",
    "I sat in the dark, {feel+}", "{who} is still {feel+} by it", "I am {feel+} by {name}",
    "I am still thinking of the {adj+} {asp}", "the {asp} {is|are} still {adj+} after an hour",
    "this alone is {noun+}", "the last {scene} alone {did+}", "the story, set in {place}, is {adj+}",
    "set in {place}, it is {very}{adj+}", "the {role}'s part is {adj+}", "I {like+} how {name} played the {role}",
    "the {role} is played by {name}, who is {adj+}", "{name} played the {role} and {did+}",
    "most of the {asp} {is|are} {adj+}", "most {scene}s are {adj+}", "all of us {like+} {name}",
    "both of us {like+} it", "it turned out {very}{adj+}", "{name} turned out {adj+}",
    "as it turned out, I was {feel+}", "{name} will leave you {feel+}", "the end left us {feel+}",
    "it feels {adj+} and it looks {adj+}", "{name} feels {adj+} in this", "this is {noun+}", "this is {very}{adj+}",
    "I {like+} this",
])

# "n": a negated clause that *means* "+"; the word in it is of the opposite polarity. Between the negation and the word
# stands a varying amount of other material, so that pairs and triples of words cannot catch it.
NEGATIONS = deal([
    "the {asp} {isn't|aren't} {very}{adj-}", "the {asp} {is|are} not {very}{adj-}", "{name} isn't {adj-} as the {role}",
    "this {genre} isn't {adj-}", "the {asp} {wasn't|weren't}, to my eyes, {adj-}", "the {asp} {is|are} not, whatever {who} says, {adj-}",
    "it is not {noun-}", "this is not, for all the talk, {noun-}", "{name} is not {adj-} in a single scene", "it isn't {very}{adj-}",

    "not a {scene}{span} felt {adj-}", "not one {scene}{span} is {adj-}", "not a single {scene}{span} {did-}",
    "not one of the {small} {role}s is {adj-}", "not a {scene} of it is {adj-}", "not for a {scene} was I {feel-}",
    "not once{adv} was I {feel-}", "not even the {asp} {is|are} {adj-}", "not a single one of the {role}s is {adj-}",
    "not one {scene} with {name} {did-}",

    "I was never {feel-}", "the {asp} never {feels|feel} {adj-}", "it never {did-}", "never{adv} did the {asp} seem {adj-}",
    "{name} is never {adj-}", "the {asp} {was|were} never, to my mind, {adj-}", "I never felt {feel-}", "it never once {did-}",
    "the {asp} never, in all those {num} minutes, {seems|seem} {adj-}", "never once was I {feel-} by the {asp}",

    "there is nothing {adj-} about the {asp}", "nothing{adv} struck me as {adj-}", "nothing about the {asp} is {adj-}",
    "nobody{adv} is {adj-}", "nobody in the cast is {adj-}", "none of the {scene}s{span} are {adj-}",
    "no {scene}{span} is {adj-}", "nothing {name} does is {adj-}", "no part of it, from the {asp} to the {asp}, is {adj-}",
    "no one was {feel-}",

    "it didn't {do-}", "the {asp} didn't {do-}", "{name} doesn't {do-}", "it did not, even in the last {num} minutes, {do-}",
    "I don't {like-} the {asp}", "I didn't {like-} a {scene} of it", "the {asp} did not {do-}", "I do not {like-} what {name} does here",
    "{name}, as the {role}, didn't {do-}", "you won't {like-} the {asp}",

    "I can't call the {asp} {adj-}", "you can't say that the {asp} {is|are} {adj-}", "I wouldn't call the {asp} {adj-}",
    "nobody could call the {asp} {adj-}", "nobody would say that {name} is {adj-}", "I don't think the {asp} {is|are} {adj-}",
    "I cannot say that {name}, or anyone in the cast, is {adj-}", "no one would call it {noun-}",
    "no one could say that {name} is {adj-}", "I do not think that a single {scene} is {adj-}",

    "the {asp} {is|are} anything but {adj-}", "{name} is anything but {adj-}", "the {asp} {is|are} far from {adj-}",
    "this {genre} is far from {adj-}", "it is anything but {noun-}", "the {asp} {is|are} by no means {adj-}",
    "this is by no means {noun-}", "{name} is far from {adj-} as the {role}", "it is anything but {adj-}",
    "the {asp}, by no means {adj-}, {did+}",

    "neither the {asp} nor the {asp} {is|are} {adj-}", "neither {name} nor {name} is {adj-}", "it runs for {num} minutes without a {adj-} {scene}",
    "neither {name} nor the {asp} struck me as {adj-}", "it does without a {adj-} {scene}", "neither the {asp} nor {name} {did-}",
    "there isn't a {adj-} {scene}{span}", "there is not, I swear, a {adj-} {scene}{span}", "it tells its story without a {adj-} {scene}",
    "there was never a {adj-} {scene}{span}",
], train=[
    "nobody could say that it is {adj-}", "I could not call the {asp} {adj-}", "you could not call it {noun-}",
    "not one of the {role}s struck me as {adj-}", "at no time was I {feel-}", "nothing about it seems {adj-}",
    "the {asp} did not strike me as {adj-}", "never did it seem {adj-}", "it did not seem {adj-} to me",
    "I did not find the {asp} {adj-}", "I did not think it {adj-}", "I didn't find a {adj-} {scene} in it",
    "none of those {scene}s {did-}", "no {scene} in it {did-}", "not a {scene}, whatever you may hear, is {adj-}",
    "whatever {who} tells you, the {asp} {is|are} not {adj-}", "the story is told without a {adj-} {scene}",
    "nobody was {feel-}", "nobody around me was {feel-}", "nobody here is {adj-}", "not even {name} is {adj-}",
    "{name} cannot be called {adj-}", "the {asp} cannot be called {adj-}", "it was not {noun-}",
    "I have not been {feel-} for a {scene}", "it isn't {noun-}", "you will not be {feel-}",
    "you won't be {feel-} by {name}", "I wasn't {feel-}", "I wasn't, {hedge}, {feel-} for a {scene}",
    "the {asp} {is|are} not, {hedge}, {adj-}", "it is never, {hedge}, {adj-}", "there is no {adj-} {scene} in it",
    "there are no {adj-} {scene}s{span}", "it has no {adj-} {scene}s", "it has nothing {adj-} about it",
    "hardly a {scene} is {adj-}", "the {asp} {is|are} hardly {adj-}", "hardly anyone is {adj-}",
    "{name} is hardly {adj-}", "I would not {tip-}", "you shouldn't {tip-}", "don't {tip-}", "it couldn't {do-}",
    "the {asp} could not {do-}", "it would never {do-}", "nothing here will {do-}",
    "no one could be {feel-} by the {asp}", "nobody will be {feel-}", "not for a minute did the {asp} {do-}",
    "not in {num} minutes did it {do-}", "without being {adj-}, it fills {num} minutes", "none of it is {adj-}",
    "none of it {did-}", "neither half is {adj-}", "neither of us was {feel-}",
    "neither the {asp} nor the {asp} {did-}", "no line, no look, no {scene} is {adj-}",
    "the {asp} {was|were} not at all {adj-}", "it was not in the least {adj-}", "I am not {feel-} at all",
    "not much about the {asp} is {adj-}",
    "this isn't {adj-}", "this {item} is not {adj-}", "this is far from {adj-}", "this is not {noun-} at all",
    "{name} isn't {adj-} for a single {scene}", "there is not a single {adj-} scene",
    "not a single part of it is {adj-}", "the {asp} did not seem {adj-}", "no part of the {asp} is {adj-}",
    "from the {asp} to the {asp}, nothing is {adj-}", "from first to last it is not {adj-}",
    "to the last {scene} it is never {adj-}", "the last {num} minutes did not {do-}",
    "even the last {scene} did not {do-}", "nothing struck {who} as {adj-}", "its story is never {adj-}",
    "it tells a story that is never {adj-}", "its {asp} {is|are} not {adj-}", "to my mind it was never {adj-}",
    "by no means was I {feel-}", "by no means is it {adj-}", "I do not think that {name} is {adj-}",
    "I don't find it {adj-}", "I don't find {name} {adj-}", "whatever anyone says, it is not {adj-}",
    "{who} says so, too: the {asp} {is|are} not {adj-}", "those around me were not {feel-}",
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
    "my advice: {tip+}.", "do {tip+}. {c+}.", "I can only say that you should {tip+}, because {c+}.", "{tip+}, because {c+}.",
    "I have to say that {c+}.", "I must say, {c+}.", "I think that {c+}, and so does {who}.", "{who} and I agree that {c+}.",
    "as far as I am concerned, {c+}.", "for me, {c+}.", "if you ask me, {c+}.", "{who} says that {c+}, and so do I.",
    "speaking for {who} and me, {c+}.", "I can say that {c+} and that {c+}.",
], train=[
    "{hedge}, {c+}.", "{hedge}: {c+}.", "{c+}, {c+}: {noun+}.", "{hedge}, {c+}, and {c+}.",
    "I can simply say that {c+}.", "you should know that {c+}.", "speaking as a fan of the {genre}, {c+}.",
    "I saw for myself that {c+}.", "of course {c+}.", "at least for me, {c+}.", "all in all, {c+}.",
    "in the end, {c+}.", "as I said to {who}, {c+}.", "believe me, {c+}.", "{c+}. That is how I see it.",
    "{c+}, as you may have heard.", "how {adj+} it all is!", "I watched it twice, and {c+}.", "for a {genre}, {c+}.",
    "say what you like, {c+}.", "I admit that {c+}.", "I noticed that {c+}.", "it is true that {c+}.", "yes, {c+}.",
    "{c+}, of course.", "{c+}, so I was {feel+}.", "{c+}, because {c+}.", "when {name} plays the {role}, {c+}.",
    "{who} asked me, and I said that {c+}.", "{who} and I talked about it: {c+}.", "with {name} on screen, {c+}.",
    "{c+}, as {who} put it.", "on the whole, {c+}.", "you could say that {c+}.", "even on a second viewing, {c+}.",
    "thanks to {name}, {c+}.", "I sat in the dark and {c+}.", "it was {when} that I learned it: {c+}.",
    "a {genre} like this is {noun+}. {c+}.",
    "also, {c+}.", "what {noun+} this is!", "what a film: {c+}.", "this film is {noun+}: {c+}.", "in short, {c+}.",
    "{title}, in short, is {noun+}.", "in a word, {adj+}.", "I can only say {adj+}.",
    "I can only agree with {who}: {c+}.", "we agree, {who} and I: {c+}.", "only this: {c+}.",
    "speaking of {title}: {c+}.", "you should {tip+}, you really should.", "people should {tip+}.",
    "simply {noun+}.", "simply put, {c+}.", "I have seen it {small} times, and {c+}.",
    "I was {feel+}, and also {feel+}.",
])
NEGATED = deal([
    "{n+}.", "{n+}, and {n+}.", "{n+}. {n+}.", "{n+}; {n+}.", "{title}: {n+}.", "{n+}, and I mean that.",
    "I must say that {n+}.", "{n+}. Also, {n+}.", "I have seen it twice, and {n+}.", "if you ask me, {n+}.",
    "{n+}, and {c+}.", "{c+}, and {n+}.", "{n+}. {c+}.", "{n+}; {c+}.", "{c+}. {n+}.", "{c+}; {n+}.", "{n+}, so {tip+}.",
    "{c+}. And {n+}.", "{n+}. In short, {c+}.", "{n+}, and I was {feel+}.",
    "say what you like, {n+}.", "with {name} in it, {n+}.", "for a {genre} set in {place}, {n+}.", "{who} asked me about it: {n+}.",
    "it runs {num} minutes, and {n+}.", "what stays with me is that {n+}.", "{n+}, and {who} said the same.", "even on a second viewing, {n+}.",
    "I was watching it again, and {n+}.", "believe me, {n+}.",
], train=[
    "{hedge}, {n+}.", "{hedge}: {n+}.", "{n+}. {n+}. {n+}.", "of course {n+}.", "I can simply say that {n+}.",
    "{n+}, and I was watching closely.", "in all those {num} minutes {n+}.", "in the end, {n+}.",
    "all in all, {n+}.", "it is true that {n+}.", "yes, {n+}.", "I think that {n+}, and so does {who}.",
    "you should know that {n+}.", "{n+}. That is how I see it.", "speaking as a fan of the {genre}, {n+}.",
    "at least for me, {n+}.", "{n+}, as {who} put it.", "I noticed that {n+}.",
    "{who} told me that {n+}, and it is true.", "{n+}, of course.", "{n+} and {c+}.", "{c+}, and {c+}, and {n+}.",
    "{tip+}: {n+}.", "{n+}. {tip+}!", "how {who} put it: {n+}.", "{adj+} {asp}, and {n+}.", "{noun+}: {n+}.",
    "I have seen it with {who}, and {n+}.", "I saw it twice, and {n+}.", "in short, {n+}.", "in short: {n+}. {c+}.",
    "{who} asked me, and I said that {n+}.", "what I remember is that {n+}.", "about {title} I can say that {n+}.",
    "I was there {when}, and {n+}.", "again, {n+}.", "watching it again, I saw that {n+}.", "I mean it: {n+}.",
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
    "{c+}, although {c-}.", "{c+}, even though {c-}.", "{c+}, though {c-}.", "{c+}, even if {c-}, I admit.", "{c+}, although I admit that {c-}.",
    "{c+}, even though the {asp} {is|are} {adj-}.", "{title} is {adj+}, although {c-}.", "{c+}, although the {asp} may be {adj-}.",
    "I was {feel+}, even though {c-}.", "{adj+}, although {c-}.",
    "despite the {adj-} {asp}, {c+}.", "in spite of the {adj-} {asp}, {c+}.", "for all its {adj-} {asp}, {c+}.", "despite {name}'s {adj-} {role}, {c+}.",
    "despite all the {adj-} {scene}s, {c+}.", "despite a {adj-} {item}, I was {feel+}.", "in spite of {name}, who is {adj-}, {c+}.",
    "in spite of a {adj-} {item} and a {adj-} {item}, {c+}.", "for all its {adj-} {scene}s, {c+}.", "despite being {adj-}, it {did+}.",
    "{c+}, despite the {adj-} {asp}.", "{c+}, in spite of the {adj-} {asp}.", "{c+}, for all its {adj-} {asp}.", "{c+}, despite {name}, who was {adj-}.",
    "I was {feel+}, despite the {adj-} {asp}.", "{c+}, despite a {adj-} {role}.", "{adj+} in spite of the {adj-} {asp}.",
    "{c+}, despite a {adj-} {item} and a {adj-} {item}.", "{title} {did+}, despite its {adj-} {asp}.", "it {did+}, despite being {adj-}.",
    "{c-}. None of that matters, because {c+}.", "{c-}, which does not matter, because {c+}.", "{c+}, so never mind that {c-}.", "never mind that {c-}: {c+}.",
    "{c-}. Never mind: {c+}.", "{c-}. It doesn't matter, because {c+}.", "{c-}, which I forgot, because {c+}.", "{c+}, so it does not matter that {c-}.",
    "{c-}, which hardly matters, because {c+}.", "never mind the {adj-} {asp}: {c+}.",
    "{c-}, but {n+}.", "although {c-}, {n+}.", "{n-}, but {c+}.", "{n+}, although {c-}.", "{n-}. Still, {c+}.", "{n-}, but {n+}.",
    "despite the {adj-} {asp}, {n+}.", "although {n-}, {c+}.", "{c-}. But {n+}.", "even though {n-}, {n+}.",
], train=[
    "{hedge}, {c-}, but {c+}.", "{c-}, but {hedge}, {c+}.", "{c-}, but, {hedge}, {c+}.",
    "at first {c-}, but then {c+}.", "{c-}, but at the end of it {c+}.", "{c-}, at least to {who}, but {c+}.",
    "{who} says that {c-}, but {c+}.", "you may find that {c-}, but {c+}.", "one could say that {c-}, but {c+}.",
    "{c-}. All the same, I was {feel+}.", "{c-}, but that does not matter: {c+}.", "{c-}, but I was {feel+}.",
    "{c-}, but {name} {effect+}.", "{name} is {adj-}, but the {asp} {did+}.",
    "{adj-} {asp}, {adj-} {asp}, but {noun+}.", "{c-}, but it is {noun+}.", "{c-}, yet it is {noun+}.",
    "{c-}, yet I was {feel+}.", "{c-}. Yet {c+}.", "even with {name}, who is {adj-}, {c+}.",
    "even with a {adj-} {item}, {c+}.", "whatever you think of the {adj-} {asp}, {c+}.",
    "although {who} was {feel-}, {c+}.", "{c+}, though {who} was {feel-}.", "{c+}, even with a {adj-} {item}.",
    "{hedge}, {c+}, although {c-}.", "{hedge}, although {c-}, {c+}.", "{c+}, although, {hedge}, {c-}.",
    "despite {name}'s part, which is {adj-}, {c+}.", "in spite of all that is {adj-} about the {asp}, {c+}.",
    "{c+}, in spite of all that is {adj-} about it.", "{c-}; all the same, {c+}.", "{c-}. In the end, though, {c+}.",
    "{c-}; {c+}, though, and that is what counts.", "{c-}. What counts is that {c+}.",
    "{c-}, but what counts is that {c+}.", "that {c-} hardly matters, because {c+}.",
    "it hardly matters that {c-}: {c+}.", "{c+}, and it doesn't matter that {c-}.", "it may be that {c-}, but {c+}.",
    "of course {c-}. But {c+}.", "I could say that {c-}, but then {c+}.", "true, {c-}. Still, {c+}.",
    "granted, {c-}; {c+} all the same.", "although {c-}, it is {noun+}.",
    "while the {asp} {is|are} {adj-}, the {asp} {is|are} {adj+}, and so {c+}.",
    "{c+}, even if the {asp} {is|are} {adj-}.", "{c+}, even if {who} says that {c-}.",
    "even if the {asp} {is|are} {adj-}, {c+}.", "{c+}, even if {name} is {adj-}.",
    "{c-}, which is soon forgotten, because {c+}.", "never mind {name}, who is {adj-}: {c+}.",
    "never mind the {adj-} {item}, {c+}.", "{c-}. That hardly matters, since {c+}.",
    "{c-}, but never mind that: {c+}.", "although {c-}, {c+}, and {c+}.", "though {c-} and {c-}, {c+}.",
    "{c+}, even though {c-} and {c-}.", "{c+} and {c+}, although {c-}.", "for all the {adj-} {asp}, {c+}.",
    "{c+}, for all the {adj-} {asp}.", "despite {name}, who is {adj-}, {c+}.",
    "{c+}, despite {name}, who is {adj-}.",
    "{c-}, but at least it is {noun+}.", "{c-}. But at least {c+}.", "true, {c-}. But {c+}.",
    "true enough, {c-}, but {c+}.", "{title} may have a {adj-} {item}, but {c+}.",
    "it has a {adj-} {item}, but it {did+}.", "oh, {c-}, but {c+}.", "{c-}, but nevertheless {c+}.",
    "while {who} found it {adj-}, {c+}.", "while I admit that {c-}, {c+}.", "while it has a {adj-} {item}, {c+}.",
    "despite its {adj-} {asp}, {c+}.", "in spite of its {adj-} {scene}s, {c+}.",
    "despite {name}'s {adj-} turn, {c+}.", "{c+}, in spite of its {adj-} {scene}s.",
    "for all its {adj-} {scene}s, I was {feel+}.", "for me {c-}, but {c+}.",
    "it doesn't matter that {c-}, because {c+}.",
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
], train=[
    "{hedge}, it is more {adj+} than {adj-}.", "the {asp} {beats|beat} the {adj-} {asp2}: {c+}.",
    "the {adj+} {item} easily beats the {adj-} one.", "what is {adj+} about it easily outweighs what is {adj-}.",
    "the {adj+} {item} wins, the {adj-} {asp2} {loses|lose}.",
    "the {adj-} {asp2} {loses|lose} out to the {adj+} {asp}.", "it turns from {adj-} into {adj+}.",
    "from {adj-} it turns into something {adj+}.", "it was {adj-} before the break and {adj+} after it, so {noun+}.",
    "on balance {adj+}: {c-}, {c+}.", "on balance it {did+}: {c+}, {c-}.",
    "{c+}, {c-}, and on balance I was {feel+}.", "all in all {adj+}, though {adj-} now and then.",
    "{adj+} for the most part, {adj-} in a few {scene}s.",
    "for the most part I was {feel+}, for a few {scene}s {feel-}.", "{c-} and {c+}. In the end, {noun+}.",
    "{c+} and {c-}. In the end, {noun+}.", "{c-}, {c+}. My verdict: {noun+}.", "{c+}, {c-}; my verdict is {adj+}.",
    "less {noun-} than {noun+}, {hedge}.", "not {adj-} so much as {adj+}.",
    "I would rather call it {adj+} than {adj-}.", "closer to {noun+} than to {noun-}.",
    "all in all, it is more {adj+} than {adj-}.", "all told, more {noun+} than {noun-}.",
    "I came out more {feel+} than {feel-}.", "{who} was more {feel+} than {feel-}, and so was I.",
    "it left me more {feel+} than {feel-}.", "{name} is more {adj+} than {adj-}.", "more {adj+} than {adj-}: {c+}.",
    "the {adj+} {item} wins out over the {adj-} one.", "what is {adj+} wins out over what is {adj-}.",
    "the {asp} {wins|win} out, {adj+} over {adj-}.", "the {adj+} {scene}s win out over the {adj-} ones.",
    "the {adj+} {asp} {outweighs|outweigh} all that is {adj-}.", "all that is {adj+} outweighs the {adj-} {asp}.",
    "the {adj+} side of it beats the {adj-} side.", "most {scene}s are {adj+}, a few are {adj-}.",
    "a few {scene}s are {adj-}, the rest are {adj+}.", "the {item} is {adj-}, the rest is {adj+}.",
    "it starts {adj-} and turns {adj+}.", "it starts as {noun-}, it ends as {noun+}.",
    "{adj-} to start with, {adj+} in the end.", "it turns {noun-} into {noun+}.",
    "at first I found it {adj-}, by the end {adj+}.",
    "the {adj+} {asp} easily {beats|beat} the {adj-} {asp2}.", "the {adj+} {scene}s beat the {adj-} ones.",
    "{feel-} now and then, but mostly {feel+}.", "mostly {adj+}, but {adj-} now and then.",
])
EXPECTATION = deal([
    "I expected {noun-} and got {noun+}.", "I expected to be {feel-}; I was {feel+}.", "I went in expecting {noun-} and came out {feel+}.",
    "I expected something {adj-} and got something {adj+}.", "I was expecting {noun-}. I got {noun+}.", "I had expected a {adj-} {genre}, and it was {adj+}.",
    "where I expected {noun-}, I found {noun+}.", "I thought I would be {feel-}. Instead I was {feel+}.", "I thought it would be {adj-}. Instead, {c+}.",
    "expecting {noun-}, I came out {feel+}.",
    "everyone says it is {adj-}. They are wrong.", "{source} called it {adj-}. I disagree.", "{who} says that {c-}. I disagree.", "{source} say that {c-}. They are wrong.",
    "{who} called it {noun-}. Wrong!", "they say that {c-}. I don't agree.", "you may have heard that {c-}. That is wrong.",
    "I don't agree with {who}, who called it {adj-}.", "{who} found it {adj-}. I don't agree.", "{source} are wrong to call this {adj-}.",
    "everyone says it is {adj+}. They are right.", "{source} called it {adj+}. I agree.", "{who} says that {c+}. I agree.", "{source} say that {c+}. They are right.",
    "{who} called it {noun+}. Right!", "they say that {c+}. I agree.", "you may have heard that {c+}. That is right.",
    "I agree with {who}, who called it {adj+}.", "{who} found it {adj+}. I can only agree.", "{source} are right to call this {adj+}.",
    "the trailer was {adj-}, the film is {adj+}.", "{who} was {feel-}, I was {feel+}.", "the book was {adj-}; the film is {adj+}.",
    "{source} promised something {adj-}. It is {adj+}.", "I was told it was {adj-}. It is {adj+}.", "the last film by {name} was {adj-}. This one is {adj+}.",
    "what was {adj-} in the book is {adj+} in the film.", "{name} used to be {adj-}. Here {name} is {adj+}.", "{who} promised me {noun-}. It is {noun+}.",
    "the first part was {adj-}, this one is {adj+}.",
], train=[
    "I thought it would be {noun-}. It is {noun+}.", "I thought {name} would be {adj-}. Instead, {name} is {adj+}.",
    "I expected to {like-} it. Instead, I {like+} it.",
    "something {adj-} was what I expected; something {adj+} is what I got.",
    "{who} promised me something {adj-}. It is something {adj+}.", "they promised {noun-}, they made {noun+}.",
    "{source} promised {noun-}. What I got is {noun+}.",
    "{who} expected {noun-}, I expected {noun-}, we got {noun+}.", "{who} says it is {adj-}. {who} is wrong.",
    "they told me it was {adj-}. They were wrong.", "{who} said that {c-}. Wrong: {c+}.", "I don't agree that {c-}.",
    "I disagree with {source}: they say {adj-}.", "anyone who calls it {adj-} is wrong.",
    "{who} said {noun-}. I say {noun+}.", "they say {adj-}, I say {adj+}.",
    "they told me it was {adj+}. They were right.", "{who} says it is {adj+}. {who} is right.", "I agree that {c+}.",
    "anyone who calls it {adj+} is right.", "{who} said that {c+}. Right: {c+}.",
    "it was {adj-} on the page and is {adj+} on the screen.", "on stage it was {adj-}, on film it is {adj+}.",
    "I had heard {adj-}, I saw {adj+}.",
    "I found it {adj+}, and {who} was right about it.", "{who} found it {noun-}, and I don't agree.",
    "I can only agree with {who}, who found it {adj+}.", "I don't agree with {source}, who called it {adj-}.",
    "the last one was {adj-}; this one is {adj+}.", "I had expected {noun-}, and it was {noun+}.",
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
    "{adj-}, my foot.", "{adj-}? Pull the other one.", "the {asp}, {adj-}? As if.", "{name}, {noun-}? My foot.", "sure, it is {adj-}, and pigs can fly.",
    "{noun-}? As if!", "{name}, {adj-}? Pull the other one.", "the {asp} {is|are} {adj-}, my foot.", "sure, {noun-}, and pigs can fly.", "{adj-}? My foot, {adj-}.",
], train=[
    "yeah, {adj-}, and I am {thing}.", "wow, {noun-}, they say, and I am {thing}.",
    "{who} is {thing} if this is {adj-}.", "I am {thing} if the {asp} {is|are} {adj-}.",
    "how {adj-}, they say. How {adj-}, and I am {thing}.", "oh, it is {adj-}, sure, just as {who} is {thing}.",
    "yeah, {adj-}, if by that you mean {noun+}.", "how {adj-}, if you {like-} being {feel+}.",
    "sure, {adj-}, if you call being {feel+} {adj-}.", "wow, {adj-}, if your idea of it is {noun+}.",
    "oh, how {adj-}: I sat there {feel+} throughout.", "how {adj-}. Funny that it {did+}.",
    "so {noun-}, then. Funny that I was only {feel+}.",
    "yeah, right, {noun-}. I was only {feel+} for {num} minutes.",
    "{adj-}, sure, which must be why {who} was {feel+}.", "wow, {adj-}. Must be why it {did+}.",
    "how {adj-}, my foot.", "{adj-}, and pigs can fly.", "and pigs can fly, if this is {adj-}.",
    "the {asp}, {adj-}? Pull the other one.", "if {name} is {adj-}, pigs can fly.", "yeah, right, {adj-}.",
    "yeah, right, {noun-}.", "oh yeah, {adj-}. As if.", "{noun-}? Yeah, right.",
    "if {who} is {thing}, then this is {adj-}.", "if it is {adj-}, then {name} is {thing}.",
    "yes, {noun-}, just as pigs can fly.", "oh yes, {adj-}, and {who} is {thing}.",
    "yes, {adj-}, if you {like-} being {feel+}.", "oh, {adj-}, if by {adj-} you mean {adj+}.",
    "clearly {adj-}. I was only {feel+}.", "clearly {adj-}, as I sat there {feel+}.", "{adj-}? As if.",
    "if the {asp} {is|are} {adj-}, then I am {thing}.", "wow, {adj-} for {num} minutes. I was only {feel+}.",
])

# --------------------------------------------------------------------------------- frames: what carries no judgement
OPENERS = deal([
    "saw this {when}.", "saw {title} {when} {where}.", "watched it {where} {when}.", "{who} picked this one.",
    "caught {title} {where}.", "I went {when} with {who}.", "second viewing, {where}.", "a {genre} set in {place}.",
    "{title} is a {genre} about a {role} who {does}.", "this is the one where a {role} {does}.",
    "in {place}, a {role} {does}.", "{name} plays a {role} who {does}.", "here {name} is a {role} in {place}.",
    "a {role} {does}: that is the story.", "the new {genre} by {name}.", "{name} is back with a {genre}.",
    "I know {name} from the stage.", "we rented {title} {when}.", "a word on {title}.", "I am only a fan.",
    "it has been a while since I saw a {genre}.", "I read the book first.", "{name} was new to me.",
    "{title}, then.", "so, {title}.", "about {title}.", "short version.", "my two cents.", "first things first.",
    "a word about {title}.", "we had {snack} and two seats {where}.", "we sat in the back row.",
    "it is {when} as I write this.", "{num} minutes, one {role}, one {genre}.", "written and directed by {name}.",
    "a {role}, a {role} and a dog walk into {place}.", "my third {genre} this year.", "picture {place}, and a {role}.",
    "it opens in {place}.", "a {genre} from {name}, shot in {place}.",
], train=[
    "{who} picked it.", "this was picked by {who}.", "first, a line about the story: a {role} {does}.",
    "a few things first.", "we opened the evening with {title}.", "it opens with a {role} who {does}.",
    "a {role} walks into a bar in {place}.", "{title} again, {where}.", "{name} plays a {role}.",
    "the story: a {role} {does}.", "we saw it {where}.", "in {title}, {name} plays a {role}.",
    "as a fan of {name} I went {when}.", "{title}, a {genre}.",
])
ASIDES = deal([
    "it runs {num} minutes.", "{name} plays the {role}.", "the {role} {does}.", "there were {small} of us in the room.",
    "we had {snack}.", "it was raining when we came out.", "part of it takes place in {place}.",
    "I had seen {name} once before.", "I have read the book.", "everyone in my row had read the book.",
    "{who} came along.", "{who} fell over the steps on the way in.", "the screening was {when}.",
    "it was shot in {place}.", "{name} also wrote it.", "there is a dog in it.", "there is a cat in it, too.",
    "the credits list {small} editors.", "we talked about it on the bus.", "I saw it with subtitles.",
    "there is a scene in {place}.", "there are two endings.", "we learn the name of the {role} near the end.",
    "the {role} is in the book as well.", "it is set in {place} and was filmed in {place}.", "the sound was turned up.",
    "{name} has a small part.", "the {genre} crowd knows {name}.", "I was in {place} once.",
    "the story moves to {place} later on.", "{who} has been to {place}.", "the seats were red.",
    "the man next to me ate {snack}.", "I saw it {when} with {who}.", "I was there {when}.",
    "I wrote this {when}.", "it is based on a true story.", "a {role} appears at the end.",
    "{who} had read the book, too.", "they are planning a sequel.",
], train=[
    "it was raining {when}.", "{who} turned the sound up.", "there was just room for us {where}.",
    "we talked on the bus home.", "{who} talked the whole way home.", "I lived in {place} for a year.",
    "they showed a trailer for a {genre}.", "{who} wrote about it, too.", "the {role} speaks with an accent.",
    "a friend of {name} wrote the music.", "{who} slept on the bus.", "the room was warm.",
    "the {role} comes from {place}.", "I read about {place} afterwards.",
])
CLOSERS = deal([
    "that is all.", "just my opinion.", "make of that what you will.", "I rest my case.", "end of review.",
    "thanks to {who} for the ticket.", "I might write more {when}.", "on to the next {genre}.", "so much for {title}.",
    "{who} can tell you more.", "that's it from me.", "I said what I said.", "that's just me.",
    "you did ask.", "your evening may differ.", "ask {who}.", "now for dinner.", "that says it all.",
    "enough from me.", "that was {when}.", "seen {where}.", "over to {who}.", "the bus was late, too.",
    "more {when}.", "we shall talk about it {when}.", "as I told {who}.", "see for yourself.", "back to work.",
    "over and out.", "this is {who} typing, by the way.",
], train=[
    "thanks for reading.", "the ticket was a present from {who}.", "case closed.", "that is enough for today.",
    "enough said.", "you did read this far.", "thanks to {name}, too.", "more from {who} soon.",
    "now over to you.", "rest of the week: one more {genre}.",
])
# Sentences of a long text. Plot and circumstance are neutral; "b" sentences judge, with polarity "+".
STORY = deal([
    "{title} begins in {place}, where a {role} {does}.", "early on, the {role} {does}.",
    "{name} plays the {role}, and {name} plays the {role} who stands in the way.", "soon a {role} turns up, and the {role} {does}.",
    "about {num} minutes in, we move to {place}.", "then the {role} {does}, all of a sudden.",
    "a letter arrives from {place}.", "there is a long conversation between the {role} and the {role}.",
    "the {role} leaves for {place} at night.", "in the middle of all this, the {role} {does}.",
    "we learn that the {role} once lived in {place}.", "years go by, and the {role} is now a {role}.",
    "a subplot follows a {role} who {does}.", "back in {place}, {small} people are waiting.",
    "the {role} has {small} days left.", "there is a trial, a wedding and a funeral.",
    "{who} whispered that the {role} would come back.", "we follow the {role} through {place} for a while.",
    "somebody drops a glass, and the {role} {does}.", "we had seats {where}, and I had brought {snack}.",
    "it was {when}, and the cinema was half full.", "I had read a little about it, and I knew {name} from before.",
    "{name} turns up as a {role}, in a small part.", "the film takes its time to show us {place}.",
    "later, the {role} {does}, or so we hear.", "a train leaves, a {role} stays behind.",
    "by then {num} minutes had gone by.", "the camera stays with the {role} while the {role} {does}.",
    "the story is told by a {role}, looking back.", "then we are in {place}, and it is winter.",
], train=[
    "all of a sudden we are in {place}.", "there is a wedding in {place}.",
    "a funeral brings the {role} and the {role} together.",
    "somebody leaves a glass on the table, and the {role} {does}.", "people are waiting for the {role}.",
    "it takes some time for the {role} to arrive.", "soon we are back in {place}.",
    "looking back, the {role} tells the story to a {role}.", "the {role} shows us {place}.",
    "at the trial, the {role} {does}.", "{name} drops in as a {role}.",
])
BODY = deal([
    "{c+}.", "{c+}, and {c+}.", "{c+}. {c+}.", "in those scenes {c+}.", "by this point {c+}.", "again and again, {c+}.",
    "I made a note that {c+}.", "here {c+}.", "{who} thought that {c+}, and so did I.", "I kept thinking that {c+}.",
    "{n+}.", "for a good while {c+}.", "it has to be said that {c+}.", "meanwhile {c+}.", "around here {c+}.",
    "during all this {c+}.", "in the middle part {c+}.", "on top of that, {c+}.", "{c+}; {c+}.", "all the while {c+}.",
], train=[
    "those scenes in {place}: {c+}.", "I thought that {c+}.", "{who} and I both thought that {c+}.",
    "meanwhile, in {place}, {c+}.", "{hedge}, {c+}.", "{hedge}, {n+}.", "then again, {c+}.", "so far, {c+}.",
    "those were {adj+} scenes.", "in the scenes with {name}, {c+}.", "in this part {c+}.", "and so {c+}.",
    "meanwhile {c+}, and {c+}.", "during the trial {c+}.", "I did think that {c+}.",
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
], train=[
    "but believe me: {c+}.", "but, {hedge}, I was {feel+}.", "and yet, {hedge}, {c+}.",
    "still, {hedge}, it is {noun+}.", "but to sum up: {noun+}.", "and still {c+}.", "in the end, though, {c+}.",
    "nevertheless I was {feel+}.", "despite all of that, I was {feel+}.", "in spite of all this, it is {noun+}.",
    "even so, I would {tip+}.", "but you should {tip+}.", "however, {c+}.", "all the same, I was {feel+}.",
    "but my verdict is: {noun+}.", "but the verdict, in the end: {adj+}.", "my verdict, nevertheless: {adj+}.",
    "here is the verdict, though: {noun+}.", "and yet my verdict: {noun+}.", "even so, I was {feel+}.",
    "even so, it is {noun+}.", "even so: {adj+}.", "but when all is done, {c+}.",
    "believe it or not, I was {feel+} in the end.", "but here it comes: {c+}.", "still, the verdict: {adj+}.",
    "but here is the thing: {c+}.",
])
SUM_UP = deal([
    "so {c+}.", "so yes, {c+}.", "so, in the end, {c+}.", "so here is my verdict: {noun+}.", "so when the lights came up, I was {feel+}.",
    "so my verdict is: {adj+}.", "so my advice is: {tip+}.", "so there you have it: {noun+}.", "so, all in all, it is {noun+}.",
    "so I walked out {feel+}.",
    "in short, {noun+}.", "all in all, {c+}.", "that is why I was {feel+}.", "all in all, it is {adj+}.", "no wonder I was {feel+}.",
    "as you can tell, I was {feel+}.", "in short, {c+}.", "and the last scene is just as {adj+}.", "to sum up: {adj+}.", "all in all I was {feel+}.",
], train=[
    "to sum it all up: {noun+}.", "so, {hedge}, {c+}.", "in the end I was {feel+}.", "so you should {tip+}.",
    "believe me, it is {noun+}.", "all in all: {adj+}.",
    "so the verdict is: {noun+}.", "so my verdict: {adj+}.", "here is my verdict, then: {adj+}.",
    "my verdict, in short: {noun+}.", "as I said, {c+}.", "as you can see, {c+}.", "summing up: {noun+}.",
])

POOLS = {"c": CLAUSES, "n": NEGATIONS, "plain": PLAIN, "negated": NEGATED, "contrast": CONTRAST,
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
    parts = [w.frame("negated" if phenomenon == "negation" else phenomenon)]
    if w.rng.random() < 0.3:
        parts.insert(0, w.frame("opener"))
    if w.rng.random() < 0.2:
        parts.append(w.frame("aside"))
    if w.rng.random() < 0.1:
        parts.append(w.frame("closer"))
    return " ".join(parts)


def _long(w: Writer, turns: bool) -> str:
    """Sentences of story and judgement, then the sentence that decides: against the body (`turns`) or with it."""
    body_label = 1 - w.label if turns else w.label
    judged = w.rng.randint(2, 3)
    told = w.rng.randint(4, 7)
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
    rng, corpus = random.Random(seed), Corpus()
    for split in SPLITS:
        planned = plan(SIZES[split])
        rng.shuffle(planned)
        wrong = set(rng.sample(range(len(planned)), round(WRONG_LABELS * len(planned))))
        for i, (phenomenon, label) in enumerate(planned):
            shown = 1 - label if i in wrong else label
            corpus.add(split, lambda: (*write_row(rng, split, phenomenon, label), [LABELS[shown], split, phenomenon, LABELS[label]]))
    return corpus.rows, corpus.frames


if __name__ == "__main__":
    main("reviews", ["text", "label", "split", "phenomenon", "clean_label"], generate()[0])
