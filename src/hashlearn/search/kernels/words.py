"""Adding up what the words of a query are worth to the rows that have them."""

from hashlearn.compiled import compiled


@compiled
def add_weights(places, weights, count, mask, scores, found, n_found):
    """Add ``count`` times the weights of places, which ascend, to the scores, and list those that had none.

    Only the first ``len(scores)`` places count, and only those of the mask, which has length 0 where all do. Returns
    how many places are listed.
    """
    all_count = len(mask) == 0
    for i in range(len(places)):
        place = places[i]
        if place >= len(scores):
            break
        if all_count or mask[place]:
            if scores[place] == 0:
                found[n_found] = place
                n_found += 1
            scores[place] += count * weights[i]
    return n_found
