# `test_` makes it no test.
def test_param_get(key: str, default: object = None) -> str: ...  # noqa: PT028
