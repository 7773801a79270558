"""What has the operator decided?"""

from controller.settings.parts import Settings
from controller.settings.reading import BadSettings, load
from controller.settings.sources import environment_name

__all__ = ["BadSettings", "Settings", "environment_name", "load"]
