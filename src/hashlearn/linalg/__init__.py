"""The mathematics the methods share: pure functions over matrices and blocks of rows."""
