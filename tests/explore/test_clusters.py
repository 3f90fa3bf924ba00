"""What clusters are called: every one has a name that says something, the largest and most mixed included."""

import numpy as np

from hashlearn.explore.clusters import RowClusters, cluster_names


def named(labels, texts, away=None, **fields):
    labels = np.array(labels, np.uint8)
    clusters = RowClusters(labels, np.zeros(len(labels), np.float32) if away is None else np.array(away, np.float32))
    values = [dict(zip(fields, each)) for each in zip(*fields.values())] or [{}] * len(labels)
    return cluster_names(clusters, range(len(labels)), [{"text": t, **v} for t, v in zip(texts, values)])


def test_a_mixed_cluster_is_named_by_words_that_few_of_its_rows_have():
    topics = [f"topic{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(60)]
    mixed = [f"{topics[row % 60]} thing" for row in range(180)]  # each word in a sixtieth of the rows
    names = named([0] * 180 + [1] * 40, mixed + ["chess game thing"] * 40)
    assert set(names[0].split(", ")) <= set(topics)
    assert names[1].split(", ")[:2] == ["chess", "game"]


def test_one_cluster_of_all_rows_is_named_by_its_frequent_words():
    assert named([0, 0, 0, 0], ["red fox", "grey fox", "fox", "red hen"]) == ["fox, red, grey"]


def test_texts_without_a_common_word_are_named_by_the_rows_in_the_middle():
    words = ["paris", "berlin", "rome", "madrid", "cat", "dog", "cow", "hen"]
    names = named([0] * 4 + [1] * 4, words, away=[3, 0, 1, 2, 0, 3, 2, 1])
    assert names == ["berlin, rome, madrid", "cat, hen, cow"]


def test_two_clusters_of_one_value_differ_in_their_words():
    texts = ["blue sea", "blue sea", "green hill", "green hill", "tea", "tea"]
    names = named([0, 0, 1, 1, 2, 2], texts, kind=["photo"] * 4 + ["drink"] * 2)
    assert names[0] != names[1]
    assert len(set(names)) == 3
    assert not any(name.startswith("Cluster") for name in names)


def test_rows_of_which_nothing_is_known_are_numbered():
    clusters = RowClusters(np.array([0, 0, 1], np.uint8), np.zeros(3, np.float32))
    assert cluster_names(clusters, range(3), [{}] * 3) == ["Cluster 1", "Cluster 2"]


def test_rows_without_texts_are_named_by_what_many_of_them_share():
    looks = [("dark", "blue"), ("dark", "red"), ("dark", "blue"), ("light", "red"), ("light", "blue"), ("light", "red")]
    payloads = [{"light": light, "color": color} for light, color in looks * 5]
    clusters = RowClusters(np.array([0, 0, 0, 1, 1, 1] * 5, np.uint8), np.zeros(30, np.float32))
    assert cluster_names(clusters, [f"{row}.jpg" for row in range(30)], payloads) == ["dark", "light"]
    mixed = [{**payload, "light": "dark" if row % 3 else "light"} for row, payload in enumerate(payloads)]
    assert cluster_names(clusters, range(30), mixed) == ["blue", "red"]


def test_what_most_rows_have_names_no_cluster():
    payloads = [{"shape": "wide", "folder": "sea" if row < 10 else "land"} for row in range(20)]
    payloads[-1]["shape"] = payloads[-2]["shape"] = "tall"
    clusters = RowClusters(np.array([0] * 18 + [1] * 2, np.uint8), np.zeros(20, np.float32))
    assert "wide" not in cluster_names(clusters, range(20), payloads)[0]


def test_a_word_of_few_rows_does_not_join_a_frequent_one_in_a_name():
    perl = [*["perl module"] * 10, *["perl module for tryton"] * 2]
    assert named([0] * 12 + [1] * 12, perl + ["system of logs"] * 12) == ["module, perl", "logs, system"]
