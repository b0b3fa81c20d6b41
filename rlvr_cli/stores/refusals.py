"""Turns exceptions of a store's library into one line with a hint."""

import re

from rlvr_cli.errors import DataError, UsageError, UserError, first_line
from rlvr_cli.terminal import escape

EXTRAS = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "azure"),
}
_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and AWS_ENDPOINT_URL "
    "of a service other than AWS; FSSPEC_S3_ANON=true reads a public bucket",
    "gcs": "log in with `gcloud auth application-default login`, or set "
    "GOOGLE_APPLICATION_CREDENTIALS; FSSPEC_GS_TOKEN=anon reads a public bucket",
    "azure": "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and "
    "AZURE_STORAGE_ACCOUNT_KEY, or log in with `az login`",
}
_PACKAGES = {
    **dict.fromkeys(("sftp", "ssh"), "sshfs"),
    **dict.fromkeys(("webdav", "dav"), "webdav4"),
}
# What an fsspec file system lacks that the URL does not hold: fsspec takes it from the environment.
_ARGUMENT = re.compile(r"__init__\(\) missing \d+ required positional arguments?: '(\w+)'")
_REFUSED = re.compile(
    r"credential|permission|access ?denied|forbidden|unauthori[sz]ed|InvalidAccessKeyId|"
    r"SignatureDoesNotMatch|authenticat|not authori[sz]ed|Anonymous caller|"
    r"account_name|connection string",
    re.IGNORECASE,
)
# What S3 says of a bucket elsewhere: of its region, or in general.
_ELSEWHERE = re.compile(
    r"AuthorizationHeaderMalformed|PermanentRedirect|IllegalLocationConstraint|"
    r"region '[\w-]*' is wrong|must be addressed using the specified endpoint",
    re.IGNORECASE,
)
_NO_BUCKET = re.compile(r"NoSuchBucket|bucket does not exist|container does not exist", re.I)


def require_absent(error: Exception, *, is_page: bool = False) -> None:
    """Raises the error again if the bucket is missing, or a page failed for any other reason.

    fsspec says of each page that it could not open that it was not found.
    """
    cause = error.__cause__
    if is_page and cause is not None and getattr(cause, "status", None) not in (404, 410):
        raise cause
    if _NO_BUCKET.search(str(error)):
        raise error


def explained(error: Exception, url: str, what: str) -> UserError:
    """The error to raise where a place cannot be `what`: opened, read or written."""
    scheme, place = url.partition("://")[0].lower(), escape.redacted(url)
    reason = escape.redacted(f"{type(error).__name__}: {first_line(error)}")
    extra = EXTRAS.get(scheme, "")
    if isinstance(error, ImportError):
        return _missing(scheme, first_line(error))
    if match := _ARGUMENT.search(str(error)):
        variable = f"FSSPEC_{scheme}_{match[1]}".upper()
        return UsageError(f"`{place}` needs a `{match[1]}`", f"set {variable}")
    is_lost = extra in ("gcs", "azure") and isinstance(error, FileNotFoundError)
    if (is_lost and what == "written") or _NO_BUCKET.search(str(error)):
        return DataError(f"the bucket of `{place}` does not exist", "check its name, or make it")
    if extra == "s3" and _ELSEWHERE.search(str(error)):
        return UserError(
            f"the bucket of `{place}` is in another region: {reason}",
            "set AWS_DEFAULT_REGION to its region, and AWS_ENDPOINT_URL if that names one",
        )
    if isinstance(error, PermissionError) or _REFUSED.search(f"{type(error).__name__} {error}"):
        hint = _CREDENTIALS.get(extra, "check the credentials that its library reads")
        return UserError(f"`{place}` cannot be {what} with these credentials: {reason}", hint)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return DataError(f"`{place}` cannot be {what}: {reason}", "check the URL")
    return UserError(
        f"`{place}` cannot be {what}: {reason}",
        "check the connection and run the same command again: what has arrived is kept",
    )


def _missing(scheme: str, reason: str) -> UsageError:
    package = f"rlvr[{EXTRAS[scheme]}]" if scheme in EXTRAS else _PACKAGES.get(scheme)
    hint = f"pip install '{package}'" if package else f"install it: {reason}"
    return UsageError(f"`{scheme}://` needs a package that is not installed", hint)
