"""Settings with which Django's own tests run: those of its PostgreSQL builds, with addresses from the environment."""

import os


def database(name):
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": os.environ["PGUSER"],
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"],
        "PASSWORD": "",
    }


DATABASES = {"default": database("django"), "other": database("django_other")}
SECRET_KEY = "of the tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "record_django.Runner"
