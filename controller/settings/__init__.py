"""What has the operator decided?"""

from controller.settings.reading import BadSettings, load
from controller.settings.sources import environment_name
from controller.settings.values import Listener, Settings

__all__ = ["BadSettings", "Listener", "Settings", "environment_name", "load"]
