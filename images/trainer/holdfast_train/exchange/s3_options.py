"""The options of a command that say how an S3 server is reached."""

import argparse
from typing import get_args

from holdfast_protocol.settings import Addressing
from holdfast_train.storage.s3_server import S3Options


def add_s3_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to `parser`."""
    s3 = parser.add_argument_group("S3", "Keys come from the environment, a profile, or the identity of the machine.")
    s3.add_argument("--endpoint", metavar="URL", help="address of the server (default: $AWS_ENDPOINT_URL_S3, or AWS)")
    s3.add_argument("--region", metavar="NAME", help="region of the bucket (default: $AWS_REGION)")
    s3.add_argument("--ca", metavar="FILE", help="certificates of the server's CA (default: $AWS_CA_BUNDLE, or public)")
    s3.add_argument("--proxy", metavar="URL", help="HTTP proxy (default: $HTTPS_PROXY, without those of $NO_PROXY)")
    s3.add_argument("--addressing", choices=get_args(Addressing), help="where requests name the bucket (default: Auto)")


def s3_options(options: argparse.Namespace) -> S3Options:
    """What was given."""
    return S3Options(
        endpoint=options.endpoint,
        region=options.region,
        ca=options.ca,
        proxy=options.proxy,
        addressing=options.addressing,
    )
