"""Compiled loops over rows and pairs of rows."""

import numpy as np

from hashlearn.compiled import compiled, fast

SHORT = 20
"""Texts of fewer words are compared by the different words of both."""

HALF_A_WORD, HALF_THE_WEIGHT, THIRD_OF_PAIRS = 0.5, 0.5, 1 / 3
"""Words that may differ for free; factors in the distance: of the weight, and of the pairs of neighboring words."""

OF_SHORT = 2.0
"""Factor in the distance: of the different words of both texts that only one has, if both are short."""

TENTH_APART, QUARTER_APART = 0.08, 0.1
"""The least distances of two texts that are not both short, if a tenth or a quarter of the different words of both is
in only one of them."""

CHUNK = 64
"""Number of products that are checked together by their least value: most chunks hold no near pair."""


@compiled
def mixed(word):
    """A 64-bit number in which every bit depends on every bit of ``word``."""
    word = (word ^ (word >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    word = (word ^ (word >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return word ^ (word >> np.uint64(33))


@compiled
def facts_of_rows(block, words, negative_zero, hashes, lengths):
    """Two 64-bit hashes of every row, and its length; they depend only on the numbers of the row.

    ``words`` are the numbers of the block as unsigned integers. ``negative_zero`` is the pattern of -0.0, which counts
    as 0.0.
    """
    for row in range(words.shape[0]):
        total = 0.0
        first, second = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
        for column in range(words.shape[1]):
            total += np.float64(block[row, column]) * np.float64(block[row, column])
            word = np.uint64(words[row, column])
            if word == negative_zero:
                word = np.uint64(0)
            first = (first ^ word) * np.uint64(0xFF51AFD7ED558CCD)
            first ^= first >> np.uint64(32)
            second = (second ^ word) * np.uint64(0x9FB21C651E98DF25)
            second ^= second >> np.uint64(29)
        hashes[row, 0], hashes[row, 1] = first, second
        lengths[row] = np.sqrt(total)


@fast
def squared_pair_distances(left, left_scales, right, right_scales, first, second, out):
    """``|| left[first] * scale - right[second] * scale ||^2`` of every pair.

    The differences are squared, because the formula with products loses digits near zero.
    """
    for pair in range(len(first)):
        a, b = first[pair], second[pair]
        a_scale, b_scale = left_scales[a], right_scales[b]
        total = left_scales[0] * 0
        for column in range(left.shape[1]):
            difference = left[a, column] * a_scale - right[b, column] * b_scale
            total += difference * difference
        out[pair] = total


@compiled
def settle_scores(block, mean, projection, tolerances, scores):
    """Compute scores near zero again, in an order that does not depend on the block size, so that their sign is
    sure."""
    for row in range(scores.shape[0]):
        for bit in range(scores.shape[1]):
            if abs(scores[row, bit]) < tolerances[row]:
                total = 0.0
                for column in range(block.shape[1]):
                    total += (np.float64(block[row, column]) - np.float64(mean[column])) * np.float64(
                        projection[column, bit]
                    )
                scores[row, bit] = 1.0 if total > 0 else -1.0


@fast
def near_in_products(products, left_squares, right_squares, limit, first_row, pairs):
    """Places (row, column) where ``left_squares + right_squares - 2 products <= limit``.

    Begins at ``first_row`` and ends after a row when ``pairs`` has no room for another row. Returns the number of
    places and the next row.
    """
    count = 0
    n_columns = products.shape[1]
    for row in range(first_row, products.shape[0]):
        if count + n_columns > pairs.shape[0]:
            return count, row
        wanted = limit - left_squares[row]
        for start in range(0, n_columns, CHUNK):
            stop = min(start + CHUNK, n_columns)
            least = right_squares[start] - 2 * products[row, start]
            for column in range(start + 1, stop):
                least = min(least, right_squares[column] - 2 * products[row, column])
            if least <= wanted:
                for column in range(start, stop):
                    if right_squares[column] - 2 * products[row, column] <= wanted:
                        pairs[count, 0], pairs[count, 1] = row, column
                        count += 1
    return count, products.shape[0]


@compiled
def leaders_in_order(order, starts, neighbors, is_leader):
    """Go through the rows in order; a row that is near no earlier leader becomes a leader."""
    is_taken = np.zeros(len(order), np.bool_)
    for row in order:
        if is_taken[row]:
            continue
        is_leader[row] = True
        for place in range(starts[row], starts[row + 1]):
            is_taken[neighbors[place]] = True


@compiled
def shingle_vectors(words, starts, rows, vectors):
    """The words and pairs of neighboring words of each text, each once, added to vectors of length one."""
    width = np.uint64(vectors.shape[1])
    for place in range(len(rows)):
        text = words[starts[rows[place]] : starts[rows[place] + 1]]
        shingles = np.empty(2 * len(text) - 1, np.uint64)
        shingles[: len(text)] = text
        for i in range(len(text) - 1):
            shingles[len(text) + i] = mixed(text[i] * np.uint64(0x9E3779B97F4A7C15) ^ text[i + 1])
        shingles.sort()
        for i in range(len(shingles)):
            if i == 0 or shingles[i] != shingles[i - 1]:
                column = np.int64((shingles[i] >> np.uint64(1)) % width)
                vectors[place, column] += 1 if shingles[i] & np.uint64(1) else -1
        total = 0.0
        for column in range(vectors.shape[1]):
            total += vectors[place, column] * vectors[place, column]
        if total == 0:  # all entries cancel: any vector of length one that depends only on the text
            vectors[place, np.int64(text[0] % width)] = 1
            total = 1.0
        vectors[place] /= np.float32(np.sqrt(total))


@compiled
def hashes_of_texts(words, starts, hashes):
    """Two 64-bit hashes of the words of each text, in their order."""
    for text in range(len(hashes)):
        first, second = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
        for place in range(starts[text], starts[text + 1]):
            first = mixed(first ^ words[place])
            second = mixed(second * np.uint64(0x9FB21C651E98DF25) ^ words[place])
        hashes[text, 0], hashes[text, 1] = first, second


@compiled
def neighbors(text):
    """Hashes of the pairs of neighboring words, ascending."""
    pairs = np.empty(len(text) - 1, np.uint64)
    for i in range(len(text) - 1):
        pairs[i] = mixed(text[i] * np.uint64(0x9E3779B97F4A7C15) ^ text[i + 1])
    pairs.sort()
    return pairs


@compiled
def number_shared(a, b):
    """How many numbers two ascending lists share, each as often as it is in both."""
    i = j = shared = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            i, j, shared = i + 1, j + 1, shared + 1
        elif a[i] < b[j]:
            i += 1
        else:
            j += 1
    return shared


@compiled
def rare_words(words, starts, rows, known, counts, limit, tokens, ends):
    """For each text a few tokens, ascending; two near texts share at least one. Returns the number of tokens.

    Those of ``rows[i]`` are ``tokens[ends[i - 1] : ends[i]]``.
    """
    size = 0
    for place in range(len(rows)):
        text = np.sort(words[starts[rows[place]] : starts[rows[place] + 1]])
        distinct = np.empty(len(text), np.uint64)
        n_texts = np.empty(len(text), np.int64)
        m = 0
        for i in range(len(text)):
            if i == 0 or text[i] != text[i - 1]:
                at = np.searchsorted(known, text[i])
                distinct[m] = text[i]
                n_texts[m] = counts[at] if at < len(known) and known[at] == text[i] else 1
                m += 1
        longest = np.int64((len(text) + HALF_A_WORD) / (1 - limit) + 1e-9)
        is_short = longest < SHORT
        if is_short and np.int64(m / (1 - limit / OF_SHORT) + 1e-9) == m:  # only texts with the same words are near
            token = np.uint64(0)
            for i in range(m):
                token = mixed(token ^ distinct[i])
            tokens[size] = token
            size += 1
        else:
            allowed = limit / OF_SHORT * m if is_short else limit * longest + HALF_A_WORD
            n_differing = np.int64(allowed + 1e-9)
            first = size
            order = np.argsort(n_texts[:m], kind="mergesort")
            for i in range(min(n_differing + 1, m)):
                tokens[size] = distinct[order[i]]
                size += 1
            tokens[first:size].sort()
        ends[place] = size
    return size


@compiled
def pairs_of_tokens(texts, starts, tokens, token_starts, lengths, limit, n_known, group, member, pairs):
    """Pairs of texts of similar length that share a token, each pair once.

    Parameters
    ----------
    texts, starts : the texts that have token t are ``texts[starts[t] : starts[t + 1]]``, ascending
    tokens, token_starts : the numbers of the tokens of each text, ascending
    n_known : where it is not 0, only pairs of a text below it and another one
    group, member : where to begin
    pairs : room for the pairs

    Returns how many pairs there are, and where to go on.
    """
    count = 0
    while group < len(starts) - 1:
        some = texts[starts[group] : starts[group + 1]]
        while member < len(some):
            if count + len(some) > pairs.shape[0]:
                return count, group, member
            a = some[member]
            for other in range(member + 1, len(some)):
                b = some[other]
                if n_known and (a < n_known) == (b < n_known):
                    continue
                longest = max(lengths[a], lengths[b])
                if longest - min(lengths[a], lengths[b]) > limit * longest + HALF_A_WORD + 1e-9:
                    continue
                i, j = token_starts[a], token_starts[b]
                while tokens[i] != tokens[j]:  # the first that both have
                    if tokens[i] < tokens[j]:
                        i += 1
                    else:
                        j += 1
                if tokens[i] == group:
                    pairs[count, 0], pairs[count, 1] = a, b
                    count += 1
            member += 1
        group, member = group + 1, 0
    return count, group, 0


@compiled
def few_words_differ(left_words, left_starts, right_words, right_starts, first, second, limit, is_few):
    """Whether at most a share of the words of each pair of texts differ: a cheap first test."""
    for pair in range(len(first)):
        a = np.sort(left_words[left_starts[first[pair]] : left_starts[first[pair] + 1]])
        b = np.sort(right_words[right_starts[second[pair]] : right_starts[second[pair] + 1]])
        longest = max(len(a), len(b))
        is_few[pair] = longest - number_shared(a, b) - HALF_A_WORD <= limit * longest + 1e-9


@compiled
def distance_of_long(apart):
    """The least distance of two texts that are not both short, by the share of their words that only one of them has.

    It is linear between the shares 0, a tenth and a quarter, and proportional to the share beyond.
    """
    between = TENTH_APART + (QUARTER_APART - TENTH_APART) * (apart - 0.1) / 0.15
    return max(min(TENTH_APART * apart / 0.1, between), QUARTER_APART * apart / 0.25)


@compiled
def word_distances(
    left_words, left_starts, right_words, right_starts, first, second, known, counts, n_texts, distances
):
    """The distance of pairs of texts by their words, as :mod:`hashlearn.duplicates.texts` defines it."""
    for pair in range(len(first)):
        a = np.sort(left_words[left_starts[first[pair]] : left_starts[first[pair] + 1]])
        b = np.sort(right_words[right_starts[second[pair]] : right_starts[second[pair] + 1]])
        only_a = only_b = shared = n_different = 0
        weight_a = weight_b = weight_only_a = weight_only_b = 0.0
        i = j = 0
        while i < len(a) or j < len(b):
            word = b[j] if i == len(a) else (a[i] if j == len(b) else min(a[i], b[j]))
            in_a = in_b = 0
            while i < len(a) and a[i] == word:
                i, in_a = i + 1, in_a + 1
            while j < len(b) and b[j] == word:
                j, in_b = j + 1, in_b + 1
            place = np.searchsorted(known, word)
            count = counts[place] if place < len(known) and known[place] == word else 1
            weight = np.log((n_texts + 1) / count)
            n_different += 1
            shared += in_a > 0 and in_b > 0
            only_a, only_b = only_a + max(in_a - in_b, 0), only_b + max(in_b - in_a, 0)
            weight_a, weight_b = weight_a + in_a * weight, weight_b + in_b * weight
            weight_only_a += max(in_a - in_b, 0) * weight
            weight_only_b += max(in_b - in_a, 0) * weight
        longest = max(len(a), len(b))
        share = max(max(only_a, only_b) - HALF_A_WORD, 0.0) / longest
        weighted = max(weight_only_a, weight_only_b) / max(weight_a, weight_b)
        distance = max(share, HALF_THE_WEIGHT * weighted)
        if longest > 1:
            pairs_a = neighbors(left_words[left_starts[first[pair]] : left_starts[first[pair] + 1]])
            pairs_b = neighbors(right_words[right_starts[second[pair]] : right_starts[second[pair] + 1]])
            n_shared = number_shared(pairs_a, pairs_b)
            most = max(len(pairs_a), len(pairs_b))
            distance = max(distance, THIRD_OF_PAIRS * (most - n_shared) / most)
        apart = 1 - shared / n_different
        of_both = OF_SHORT * apart if longest < SHORT else distance_of_long(apart)
        distances[pair] = max(distance, of_both)
