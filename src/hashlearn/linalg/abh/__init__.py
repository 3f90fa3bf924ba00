"""Mathematics that only ABH uses: rows as sums of words, and the correction of a code for near queries."""
