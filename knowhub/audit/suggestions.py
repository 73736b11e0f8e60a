"""What to do about each kind of finding, in a sentence."""

CREDENTIAL = "Change the credential where it is used; then erase this row, or take it out of the text."
DUPLICATE = "Keep the oldest, `id`, and delete the others."
NEAR_DUPLICATE = "Compare them: they may differ in what matters. Keep one that says all, delete the others."
KEYWORD_DUPLICATE = "Merge them, where they mean the same."
FEEDBACK_LOOP = "Delete it, unless it adds something of its own: then save that alone."
SEVERAL_AUTHORS = "Find out who said it first: what agents hand on to each other is no evidence."
NEVER_FOUND = "Delete it, or put its task as one would ask for it."
STALE = {
    "expired": "Delete it, or give it another `valid_to`.",
    "superseded": "Nothing needs to be done; delete it when nobody asks for the past.",
    "bad_evidence": "Correct it, or delete it: it misled more often than its score is worth.",
    "untouched": "See whether it still holds; any feedback or change makes it fresh.",
}
