"""Writes data/tickets.csv: support tickets, 95 % `routine` and 5 % `urgent`. `python data/make_tickets.py`

Urgent means: it is happening now, it stops people from working or it does damage. Routine tickets speak of the same
systems and sometimes in the same words ("was down last week", "not urgent"), so the word alone does not decide.
Pure standard library, one seed, the same bytes on every machine. See data/README.md.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from grammar import SPLITS, Corpus, Writer, deal, main, tidy  # noqa: E402

SEED = 11
SIZES = {"train": 4000, "val": 1000, "test": 1000}
URGENT_SHARE = 0.05
LABELS = ("routine", "urgent")

WORDS: dict[str, list] = {
    "system": ["the checkout", "the login page", "the payroll export", "the VPN", "the mobile app", "the search page",
               "the warehouse scanner", "the booking calendar", "the card terminal", "the mail server", "the API",
               "the invoice module", "the customer portal", "the phone system", "the backup job", "the file share",
               "the badge reader", "the label printer", "the staff intranet", "the ordering site", "the reporting tool",
               "the appointment system", "the ticket machine", "the database", "the payment page"],
    "breaks": ["is down", "keeps crashing", "rejects every card", "has stopped responding", "shows other customers' data",
               "deletes orders as we type", "has locked everyone out", "charges people twice", "is completely dead",
               "loses every second order", "throws errors for everybody", "hangs for all users"],
    "broke": ["was down", "kept crashing", "rejected a few cards", "stopped responding", "locked some people out",
              "charged someone twice", "was dead for an hour", "lost an order", "threw errors", "was hanging"],
    "harm": ["nobody here can work", "we are losing orders by the minute", "the whole shop floor has come to a stop",
             "patients are waiting at the desk", "no truck can leave the yard", "customers are shouting at the counter",
             "payroll closes in an hour", "private addresses are open to anyone", "money is going out twice",
             "all our {many} users are locked out", "data is being lost as I write", "the queue goes out of the door"],
    "wish": ["change the logo on the start page", "add a second user", "switch to dark mode", "export the list to a spreadsheet",
             "rename a folder", "change my e-mail address", "get a copy of an old invoice", "add a column to the report",
             "set the language to German", "reset my password", "move the date format to day first",
             "order {many} more licences", "close an account we no longer use", "turn off the weekly newsletter",
             "print on both sides", "see last year's figures", "give a new colleague access", "book a training session"],
    "small": ["a typo on the help page", "a button that sits a little too low", "a missing icon", "an outdated phone number",
              "a slow chart", "a broken link in the footer", "a wrong time zone in my profile", "a blurry picture",
              "a tooltip that stays open", "a field that is too short for long names"],
    "when": ["last week", "yesterday", "on Monday", "last month", "over the weekend", "last night", "a while ago",
             "before the update", "in the spring", "the other day"],
    "later": ["next week", "some time this month", "whenever you have a minute", "before the summer", "next quarter",
              "at your convenience", "after the holidays", "in the next release"],
    "now": ["right now", "since {many} minutes ago", "as of this minute", "since this morning", "at this very moment",
            "since the update a moment ago", "this minute", "again, right now"],
    "fine": ["it works again", "all is well now", "it has been fine since", "a restart fixed it", "everything is back to normal",
             "your colleague sorted it out"],
    "site": ["the Leeds office", "our Lyon branch", "the north warehouse", "the front desk", "the clinic in Bath",
             "the second floor", "the Hamburg shop", "head office", "the night shift", "the Porto office"],
    "who": ["my colleague Jana", "our accountant", "the new intern", "Mr Osei", "Dr Falk", "our team lead", "Priya from sales",
            "the site manager", "my predecessor", "Tom in logistics"],
    "many": ["five", "twelve", "twenty", "thirty", "forty", "sixty", "ninety", "two hundred"],
}

URGENT = deal([
    "{system} {breaks} and {harm}.", "{system} {breaks} {now}. {harm}.", "{harm}: {system} {breaks}.",
    "help, {system} {breaks} at {site}.", "please call me back at once, {system} {breaks}.",
    "{system} {breaks} for {site}, {harm}.", "we need someone at once. {system} {breaks}.",
    "{system} {breaks}, we tried a restart, no change. {harm}.", "{who} reports that {system} {breaks}; {harm}.",
    "{harm} because {system} {breaks}.", "this can't wait: {system} {breaks}.", "{system} at {site} {breaks} {now}.",
    "since the change {when}, {system} {breaks}. {harm}.", "I have {many} people standing here. {system} {breaks}.",
    "{harm}. Please look at {system} at once.", "{system} {breaks} {now} and {harm}.",
    "it worked {when}, but now {system} {breaks} and {harm}.", "outage: {system} {breaks} at {site}.",
    "{system} {breaks}. This is not a small thing, {harm}.", "I know you are busy, but {system} {breaks} and {harm}.",
    "{who} and I both see it: {system} {breaks}. {harm}.", "nothing helps, {system} still {breaks}. {harm}.",
    "{system} {breaks} again, worse than {when}: {harm}.", "stop the rollout, {system} {breaks}.",
    "{site} is at a standstill, {system} {breaks}.", "everyone at {site} says that {system} {breaks}, and {harm}.",
    "I would not write at this hour if it could wait. {harm}.", "I asked about it {when}; now {system} {breaks} and {harm}.",
    "{system} {breaks}! {harm}!", "as I type, {system} {breaks}, so {harm}.",
], train=[
    "help, {harm}: {system} {breaks}.", "{who} says that {system} {breaks}, and {harm}.",
    "{who} reports that {harm}, since {system} {breaks}.",
    "{many} people are standing here, {system} {breaks} and {harm}.",
    "outage at {site}: {system} {breaks} and {harm}.", "outage, {system} {breaks}.",
    "stop everything: {system} {breaks}.", "please stop the rollout at once, {harm}.",
    "{system} {breaks}! Please help!", "{harm}! {system} {breaks}!", "help us, please: {harm}.",
    "at {site} {system} {breaks} for everyone, {harm}.", "I have to report that {system} {breaks} and {harm}.",
    "please come at once, {harm}.", "the people at {site} can't wait: {system} {breaks}.",
    "we can't wait any longer. {system} {breaks} and {harm}.", "{system} {breaks} for us all. {harm}.",
])
ROUTINE = deal([
    "how do I {wish}?", "could you {wish} {later}?", "I would like to {wish}.", "can {who} {wish} without calling you?",
    "{who} would like to {wish} {later}.", "there is {small} in {system}.", "I noticed {small}, see the picture.",
    "is there a way to {wish}?", "where can I {wish}?", "please {wish} for {site}, no hurry.",
    "we have {small} at {site}. It can wait.", "not urgent: {small} in {system}.", "this is not urgent, but there is {small} in {system}.",
    "just a question: how can I {wish}?", "{who} asked me to {wish}. Can you do it {later}?",
    "a quick idea: let us {wish}.", "thanks for your help {when}. I also want to {wish}.",
    "the manual doesn't say how to {wish}.", "I can't find where to {wish}.", "{later}, could someone {wish}?",
    "{small} in {system} since the update {when}; nobody minds.", "when is the next maintenance of {system}?",
    "does {system} work on a tablet?", "what does it cost to {wish}?", "please send {who} the guide to {system}.",
    "we are planning to {wish} at {site} {later}.", "I tried to {wish} {when} and could not find the menu.",
    "who is in charge of {system} at {site}?", "our contract for {system} ends {later}. Please send an offer.",
    "{who} has left the company. Please close the account {later}.", "feature request: a way to {wish}.",
    "please confirm that {site} can {wish}.", "I'd be glad if I could {wish}.",
    "the font in {system} looks odd at {site}, just so you know.", "{system} could use a better help page.",
    "do you know of {small} in {system}?", "I have a question on my bill for {system}.", "can you recommend a printer for {site}?",
    "we moved to {site} {when}. Please update our address.", "thank you, the answer {when} helped. You can close this.",
], train=[
    "the menu of {system} looks odd to {who}.", "the colours in {system} look odd at {site}.",
    "just so you know, the start page looks old.", "just so you know: {small} in {system}.",
    "the font is too small for {who}.", "which font does {system} use?",
    "our contract ends {later}. What would a new one cost?", "please send us an offer for {system}.",
    "please send the contract to {site}.", "our plan for {system} ends {later}, please renew it.",
    "I can't find the menu to {wish}.", "I can't find out how to {wish}.",
    "{who} can't find the page on how to {wish}.", "we can't {wish} yet, is that planned?",
    "please update our phone number at {site}.", "we moved {when}. {site} is our new address.",
    "please update the address of {who}.", "can you update {system} at {site} {later}?",
    "who can help {who} at {site} {later}?",
])
# Routine in the words of an emergency: over, feared, asked about, or somebody else's.
LOOKALIKE = deal([
    "{system} {broke} {when}, but {fine}.", "{system} {broke} {when}. {fine}, you can close the ticket.",
    "can you tell me why {system} {broke} {when}? {fine}.", "what should we do if {system} {breaks} one day?",
    "for the report: {system} {broke} {when}, {fine}.", "whom do I call when {system} {breaks}?",
    "does the service plan cover the case that {system} {breaks}?", "please write a page on what to do when {system} {breaks}.",
    "in the drill {later}, we will pretend that {system} {breaks}.", "{who} thought that {system} {breaks}; it was an unplugged cable.",
    "false alarm, {fine}.", "the mail saying that {system} {breaks} was a test. {fine}.",
    "I read that {system} {breaks} for others. Here {fine}.", "would we get a refund if {system} {breaks}?",
    "no emergency: {system} {broke} once {when}, {fine}.", "{system} {broke} {when} and we lost {many} minutes. {fine}.",
    "after {system} {broke} {when}, {who} asks for a summary.", "how often has {system} {broke} before? Just curious.",
    "nothing is down, I only want to {wish}.", "if {system} ever {breaks}, is there an emergency number?",
    "{fine}, thanks. {system} {broke} only {when}.", "please delete my ticket about {system}, {fine}.",
    "it is not true that {system} {breaks}, {fine}.", "{system} {broke} {when} during maintenance, as announced.",
], train=[
    "what do we do if {system} {breaks}?", "what happens when {system} {breaks}?",
    "in the next drill {system} {breaks}, and we practise for it.", "for the drill we will act as if {harm}.",
    "would you refund us if {system} {breaks}?", "would it help to call if {harm}?",
    "should we write to you if {system} {breaks} one day?",
    "we want to be ready for the day when {system} {breaks}.", "nothing is broken, {fine}.",
    "nothing to do here, {fine}.", "if {harm} one day, whom do we call?", "who is called when {harm}?",
    "suppose that {system} {breaks}: what then?", "the test mail said that {system} {breaks}. {fine}.",
    "does our plan help if {harm}?", "{who} asks what we do if {system} {breaks}.",
    "I would like to know what happens if {system} {breaks}.",
    "will we get our money back if {system} {breaks} one day?",
    "{system} {broke} during the announced maintenance {when}.", "as announced, {system} was off {when}. {fine}.",
    "{system} {broke} {when}, as you had announced.", "during maintenance {system} {broke}, {fine}.",
    "we practise for the drill {later}.",
])
GREETINGS = deal(["hello,", "hi team,", "good morning,", "hi,", "dear support,", "hello all,", "hey,", "good afternoon,",
                  "hi there,", "dear team,", "to whom it may concern,", "hello support,"])
EXTRAS = deal([
    "I am at {site}.", "{who} is in copy.", "we use the standard set-up.", "my browser is up to date.", "I work at {site}.",
    "you can reach me by phone.", "{who} saw it too.", "we run the latest version.", "screenshot attached.",
    "I already cleared the cache.", "we have {many} users.", "my manager is {who}.", "I will be in until five.",
    "see also my ticket from {when}.", "the account is in the name of {who}.", "we are on the large plan.",
], train=[
    "picture attached.", "I attached a screenshot.", "a screenshot is attached.",
    "my ticket from {when} is about the same thing.",
])
CLOSINGS = deal(["thanks.", "thank you!", "best, {who}.", "regards.", "kind regards.", "many thanks.", "cheers.", "best wishes.",
                 "thanks in advance.", "with best regards.", "yours, {who}.", "greetings from {site}."])
POOLS = {"urgent": URGENT, "routine": ROUTINE, "lookalike": LOOKALIKE, "greeting": GREETINGS, "extra": EXTRAS,
         "closing": CLOSINGS}


def write_row(rng: random.Random, split: str, label: str) -> tuple[str, set[str]]:
    """One ticket and the frames it was made of."""
    w = Writer(rng, split, POOLS, WORDS, LABELS.index(label))
    core = "urgent" if label == "urgent" else "lookalike" if rng.random() < 0.1 else "routine"
    parts = [w.frame(core)]
    if rng.random() < 0.4:
        parts.append(w.frame("extra"))
    if rng.random() < 0.4:
        parts.append(w.frame("closing"))
    text = tidy(" ".join(parts))
    if rng.random() < 0.4:
        text = tidy(w.frame("greeting")) + " " + text
    return text, w.frames


def generate(seed: int = SEED) -> tuple[list[list[str]], dict[str, set[str]]]:
    """All rows (text, label, split) and the frames each split used."""
    rng, corpus = random.Random(seed), Corpus()
    for split in SPLITS:
        urgent = round(SIZES[split] * URGENT_SHARE)
        labels = ["urgent"] * urgent + ["routine"] * (SIZES[split] - urgent)
        rng.shuffle(labels)
        for label in labels:
            corpus.add(split, lambda: (*write_row(rng, split, label), [label, split]))
    return corpus.rows, corpus.frames


if __name__ == "__main__":
    main("tickets", ["text", "label", "split"], generate()[0])
