"""What has the operator decided?"""

from controller.settings.parts import Listener, Settings
from controller.settings.reading import BadSettings, load
from controller.settings.sources import environment_name

__all__ = ["BadSettings", "Listener", "Settings", "environment_name", "load"]
