"""The tests of Tenure; folders below mirror the code."""
