# noqa: A005 - it mirrors pluralrm.http
