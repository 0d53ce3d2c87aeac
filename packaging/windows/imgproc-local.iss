; The installer for Windows, by Inno Setup 6:
;     iscc /DVersion=0.2.0 /DDist=..\..\dist packaging\windows\imgproc-local.iss
; Dist is the folder that build\freeze.py wrote, to which icons.py has written imgproc-local.ico. The installer installs for
; one user, without administrator rights, or with /ALLUSERS for all users. To sign it, set up a signing tool with the name
; "sign" (Tools, Configure Sign Tools) and add /DSign=1. It never changes the data in %LOCALAPPDATA%\imgproc-local.

#ifndef Version
  #error Version is missing: iscc /DVersion=0.2.0 …
#endif
#ifndef Dist
  #define Dist "..\..\dist"
#endif

[Setup]
AppId={{6E0C4E0B-55B6-4D53-9A5E-0C1B6C7B6D52}
AppName=imgproc-local
AppVersion={#Version}
DefaultDirName={autopf}\imgproc-local
DisableProgramGroupPage=yes
PrivilegesRequired=lowest
PrivilegesRequiredOverridesAllowed=dialog commandline
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
MinVersion=10.0
LicenseFile=..\..\LICENSE
SetupIconFile={#Dist}\imgproc-local.ico
UninstallDisplayIcon={app}\imgproc-local.ico
OutputDir={#Dist}
OutputBaseFilename=imgproc-local-{#Version}-windows-x64-setup
Compression=lzma2
SolidCompression=yes
ChangesEnvironment=yes
CloseApplications=force
#ifdef Sign
SignTool=sign
SignedUninstaller=yes
#endif

[Languages]
Name: "en"; MessagesFile: "compiler:Default.isl"
Name: "de"; MessagesFile: "compiler:Languages\German.isl"
Name: "fr"; MessagesFile: "compiler:Languages\French.isl"

[CustomMessages]
en.AtLogin=Start the service at login
de.AtLogin=Den Dienst bei der Anmeldung starten
fr.AtLogin=Démarrer le service à l'ouverture de session
en.OnPath=Add the command imgproc-local to PATH
de.OnPath=Den Befehl imgproc-local in PATH aufnehmen
fr.OnPath=Ajouter la commande imgproc-local à PATH
en.OpenPage=Start it and open its page
de.OpenPage=Starten und die Seite öffnen
fr.OpenPage=Démarrer et ouvrir la page

[Tasks]
Name: "login"; Description: "{cm:AtLogin}"; Flags: unchecked
Name: "path"; Description: "{cm:OnPath}"

[InstallDelete]
; an older version may have files that this version does not replace
Type: filesandordirs; Name: "{app}\_internal"

[Files]
Source: "{#Dist}\imgproc-local\*"; DestDir: "{app}"; Flags: recursesubdirs ignoreversion
Source: "{#Dist}\imgproc-local-licences\*"; DestDir: "{app}\licences"; Flags: recursesubdirs ignoreversion
Source: "{#Dist}\imgproc-local.cdx.json"; DestDir: "{app}"; Flags: ignoreversion
Source: "{#Dist}\imgproc-local.ico"; DestDir: "{app}"; Flags: ignoreversion
Source: "..\..\README.md"; DestDir: "{app}"; Flags: ignoreversion

[Icons]
; the program hides a console that was opened for it alone (hide_console in build/imgproc-local.spec)
Name: "{autoprograms}\imgproc-local"; Filename: "{app}\imgproc-local.exe"; Parameters: "serve --browser"; IconFilename: "{app}\imgproc-local.ico"; Flags: runminimized

[Registry]
Root: HKCU; Subkey: "Software\Microsoft\Windows\CurrentVersion\Run"; ValueType: string; ValueName: "imgproc-local"; ValueData: """{app}\imgproc-local.exe"" serve --no-browser"; Flags: uninsdeletevalue; Tasks: login
Root: HKCU; Subkey: "Environment"; ValueType: expandsz; ValueName: "Path"; ValueData: "{olddata};{app}"; Tasks: path; Check: not OnPath

[Run]
Filename: "{app}\imgproc-local.exe"; Parameters: "serve --browser"; Description: "{cm:OpenPage}"; Flags: postinstall nowait runminimized skipifsilent

[UninstallRun]
; Windows can't delete the files of a running program. Accepted uploads are not lost: the next start processes them.
Filename: "{sys}\taskkill.exe"; Parameters: "/F /T /IM imgproc-local.exe"; Flags: runhidden; RunOnceId: "stop"

[Code]
function UserPath: String;
begin
  if not RegQueryStringValue(HKCU, 'Environment', 'Path', Result) then
    Result := '';
end;

function OnPath: Boolean;
begin
  Result := Pos(';' + Lowercase(ExpandConstant('{app}')) + ';', ';' + Lowercase(UserPath) + ';') > 0;
end;

procedure CurUninstallStepChanged(Step: TUninstallStep);
var
  Before, After: String;
begin
  if Step <> usPostUninstall then
    exit;
  Before := ';' + UserPath + ';';
  After := Before;
  StringChangeEx(After, ';' + ExpandConstant('{app}') + ';', ';', True);
  if After <> Before then
    RegWriteExpandStringValue(HKCU, 'Environment', 'Path', Copy(After, 2, Length(After) - 2));
end;
