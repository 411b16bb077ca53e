import pytest
from program import Program


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)
