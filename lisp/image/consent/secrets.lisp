;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which environment variables may hold a secret, judging by the words of their names and the look
;;; of their values.

(cl:in-package "AGENT-Q-IMAGE")

(defun name-words (name)
  "The words of NAME, in capitals: runs of letters and digits, without digits at their end."
  (let ((words '()) (end 0) (name (string-upcase name)))
    (loop
      (let ((start (position-if #'alphanumericp name :start end)))
        (unless start (return (nreverse words)))
        (setf end (or (position-if-not #'alphanumericp name :start start) (length name)))
        (push (string-right-trim "0123456789" (subseq name start end)) words)))))

(defun ends-with-p (ending text)
  (let ((start (- (length text) (length ending))))
    (and (>= start 0) (string= ending text :start2 start))))

(defun secret-word-p (word)
  (flet ((ends-p (ending) (ends-with-p ending word)))
    (or (member word '("KEY" "KEYS" "APIKEYS" "TOKENS" "SECRETS" "PASSWORDS" "PWD" "CREDENTIAL"
                       "CREDENTIALS" "CREDS" "AUTH" "OAUTH" "COOKIE" "COOKIES" "PRIVATE" "PAT" "JWT"
                       "PSK" "OTP")
                :test #'string=)
        (some #'ends-p '("TOKEN" "SECRET" "PASSWORD" "PASSWD" "PASSPHRASE" "APIKEY" "ACCESSKEY"
                         "SECRETKEY" "PRIVATEKEY" "AUTHKEY" "ENCRYPTIONKEY"))
        (and (ends-p "PASS") (notany #'ends-p '("BYPASS" "COMPASS" "ASKPASS"))))))

(defun secret-name-p (name)
  "Whether a variable called NAME may hold a secret. One for a socket or the shell's directory
doesn't."
  (let ((words (name-words name)))
    (and (not (member name '("PWD" "OLDPWD") :test #'string-equal))
         (not (member (first (last words)) '("SOCK" "SOCKET") :test #'string=))
         (some #'secret-word-p words))))

(defun identifier-name-p (name)
  "Whether NAME says that a value, though it looks like a secret, is only an identifier."
  (member (first (last (name-words name)))
          '("ID" "UUID" "GUID" "HASH" "SHA" "COMMIT" "REV" "REVISION" "VERSION" "DIGEST" "CHECKSUM"
            "FINGERPRINT" "STREAM" "BRANCH" "TAG" "ADDRESS")
          :test #'string=))

(defun random-looking-p (text)
  "Whether TEXT is long and mixes letters and digits as no word or number does."
  (flet ((class-of-character (it)
           (cond ((digit-char-p it) :digit) ((upper-case-p it) :upper) ((lower-case-p it) :lower))))
    (and (<= 20 (length text))
         (not (find (char text 0) "/.~"))
         (every (lambda (it) (or (and (alphanumericp it) (< (char-code it) 128)) (find it "+/=_-.~")))
                text)
         (find-if #'digit-char-p text)
         (find-if #'alpha-char-p text)
         (<= (* 3 (length text))
             (* 10 (loop for (one other) on (map 'list #'class-of-character text)
                         count (and one other (not (eq one other))
                                    ;; As in names of several words.
                                    (not (and (eq one :upper) (eq other :lower))))))))))

(defun password-in-address-p (text)
  "Whether TEXT has a URL with a user's password, or with a key in the user's place."
  (loop for start = (search "://" text) then (search "://" text :start2 (1+ start))
        while start
          thereis (let* ((from (+ start 3))
                         (end (or (position-if (lambda (it) (find it "/?# ")) text :start from)
                                  (length text)))
                         (at (position #\@ text :start from :end end :from-end t))
                         (colon (and at (position #\: text :start from :end at))))
                    (and at
                         (or (and colon (< (1+ colon) at))
                             (random-looking-p (subseq text from at)))))))

(defun json-token-p (text)
  "Whether TEXT is a JSON web token."
  (and (prefixed-p "eyJ" text) (= 2 (count #\. text)) (not (find #\Space text))))

(defun secret-value-p (name value)
  "Whether VALUE, of the variable NAME, looks like a secret."
  (or (search "PRIVATE KEY-----" value)
      (password-in-address-p value)
      (loop for sign in '("password=" "passwd=" "pwd=" "accountkey=" "sharedaccesssignature=" "bearer ")
              thereis (search sign value :test #'char-equal))
      (loop for sign in '("ghp_" "gho_" "ghs_" "github_pat_" "glpat-" "sk-" "xoxb-" "xoxp-" "AKIA" "AIza"
                          "hf_" "npm_" "pypi-")
              thereis (and (prefixed-p sign value) (< 15 (length value)) (not (find #\Space value))))
      (json-token-p value)
      (and (not (identifier-name-p name)) (random-looking-p value))))

(defun secret-variable-p (name value)
  "Whether the variable NAME, with VALUE (which may be NIL), may hold a secret."
  (or (secret-name-p name)
      (and value (secret-value-p name value))))

(defun effect-of-getenv (arguments)
  (let* ((name (ignore-errors (string (first arguments))))
         (value (and name
                     (funcall (unguarded (fdefinition (find-symbol "POSIX-GETENV" "SB-EXT"))) name))))
    (when (and name (secret-variable-p name value))
      (make-effect :kind "read-secret" :target name :texts (list name)
                   :words (format nil "read the environment variable ~A~:[, whose value looks like a secret~;~]"
                                  name (secret-name-p name))))))
